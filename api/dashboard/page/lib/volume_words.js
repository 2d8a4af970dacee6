/** Title of every volume, which is a sum of the trades whose value is known. */
export const OF_KNOWN_VALUE = "Trades of unknown value are left out";
