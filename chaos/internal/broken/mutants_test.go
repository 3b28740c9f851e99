package broken_test

import "slices"

// mutants are broken protocols that a test of the root package, or of one below it,
// convicts by itself.
var mutants = slices.Concat(lockMutants, scriptMutants, nodeMutants, kindMutants, changeMutants)
