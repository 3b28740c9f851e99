package broken_test

import "slices"

// mutants are broken protocols that a test of the root package, or of one below it,
// convicts by itself. docs/TESTS.md has them as a table.
var mutants = slices.Concat(lockMutants, scriptMutants, nodeMutants, kindMutants)
