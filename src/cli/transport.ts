/** Loaded by the commands that call the gateway. A module of its own, so that the bundle keeps the client apart: with a dynamic import of the whole library, commands load the gateway too, which takes 90 ms. */
export { createConnectTransport } from '@connectrpc/connect-node';
