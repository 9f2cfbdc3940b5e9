/** The product's name, which leads to the first page. */
export function Brand() {
  return (
    <a className="brand" href="/dashboard/">
      <img src="/dashboard/icon.svg" alt="" />
      Tollgate
    </a>
  );
}
