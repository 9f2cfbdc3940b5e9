import { useEffect, useMemo, useState } from 'react';
import { type Binary, decodeBase64 } from './binary.ts';

/** Shows the images of a body. */
export function BodyImages({ images, of }: { readonly images: readonly Binary[]; readonly of: string }) {
  return (
    <p className="body-images">
      {images.map((image, index) => (
        <BodyImage key={index} image={image} name={`Image ${index + 1} of ${of}`} />
      ))}
    </p>
  );
}

function BodyImage({ image: { base64, type }, name }: { readonly image: Binary; readonly name: string }) {
  const [isBroken, setBroken] = useState(false);
  // A blob, because the Content-Security-Policy does not allow data: URLs.
  const url = useMemo(() => {
    const bytes = decodeBase64(base64);
    return bytes && URL.createObjectURL(new Blob([bytes], { type }));
  }, [base64, type]);
  useEffect(() => (url === undefined ? undefined : () => URL.revokeObjectURL(url)), [url]);
  if (isBroken || url === undefined) return <span className="quiet small">{name} can’t be shown.</span>;
  return <img src={url} alt={name} onError={() => setBroken(true)} />;
}
