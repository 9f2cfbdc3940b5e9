import { basePath } from '../data/base-path.ts';
/** The product's name, which leads to the first page. */
export function Brand() {
  return (
    <a className="brand" href={`${basePath}/`}>
      <img src={`${basePath}/icon.svg`} alt="" />
      Tollgate
    </a>
  );
}
