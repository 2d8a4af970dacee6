// Whether a text is an address of the chain: 32 bytes in base58.

const LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BYTES = 32;

/** Why a text is no address, in words; null for one that is. */
export function addressFault(text) {
  const stranger = [...text].find((letter) => !LETTERS.includes(letter));
  if (stranger !== undefined) {
    return /[0OIl]/.test(stranger)
      ? `“${stranger}” is in no address: 0, O, I and l are left out, as they look alike.`
      : "An address has letters and digits only.";
  }
  if (text.length < 32 || text.length > 44) {
    return `An address has 32 to 44 letters and digits, this has ${text.length}.`;
  }
  let number = 0n;
  for (const letter of text) number = number * 58n + BigInt(LETTERS.indexOf(letter));
  const zeros = text.length - text.replace(/^1+/, "").length; // each a byte of its own
  const bytes = zeros + (number === 0n ? 0 : Math.ceil(number.toString(16).length / 2));
  return bytes === BYTES ? null : `An address is of ${BYTES} bytes, this is of ${bytes}. Is a letter missing or too much?`;
}
