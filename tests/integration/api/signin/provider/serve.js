// The certified provider as its makers ship it: any name signs in, with its own two pages.
// Arguments: port, address to return to, seconds that a code is valid.

import Provider from "oidc-provider";

const [port, redirectUri, codeSeconds] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const client = { redirect_uris: [redirectUri], response_types: ["code"] };
const provider = new Provider(issuer, {
  clients: [
    { ...client, client_id: "soltape", client_secret: "a secret: with / and %20" },
    { ...client, client_id: "public", token_endpoint_auth_method: "none" },
    { ...client, client_id: "posts", client_secret: "secret", token_endpoint_auth_method: "client_secret_post" },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["of tests"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true }),
  }),
  pkce: { required: () => true },
  ttl: { AuthorizationCode: Number(codeSeconds), Interaction: 600, Session: 600, Grant: 600 },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
