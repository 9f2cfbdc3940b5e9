import { useEffect, useState } from 'react';
import { type Binary, decodeBase64 } from './binary.ts';

/** The images of a body. */
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
  const [url, setUrl] = useState<string>();
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    const bytes = decodeBase64(base64);
    if (bytes === undefined) return setBroken(true);
    // The policy allows no data: URLs.
    const own = URL.createObjectURL(new Blob([bytes], { type }));
    setUrl(own);
    return () => URL.revokeObjectURL(own);
  }, [base64, type]);
  if (isBroken) return <span className="quiet small">{name} can’t be shown.</span>;
  return url === undefined ? null : <img src={url} alt={name} onError={() => setBroken(true)} />;
}
