// Command redlock-compare plays the same failures to redlock and to the locks of other
// systems, and writes one table, and a page of pictures for each failure. `redlock-lab
// compare` runs it.
package main

import (
	"os"

	"github.com/quorumkit/redlock/chaos/contenders"
)

func main() { os.Exit(contenders.Main()) }
