// The files that say what there is; each exports functions, which run in their order.
module.exports = ["./lending.cjs", "./staking.cjs", "./yields.cjs", "./pools.cjs", "./drift.cjs", "./adrena.cjs"];
