package contenders

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// readSrvr reads what a ZooKeeper server answers to srvr, and returns its version or
// its mode.
func readSrvr(r io.Reader, what string) (string, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case what == "version" && key == "Zookeeper version":
			number, _, _ := strings.Cut(value, "-")
			return "ZooKeeper " + number, nil
		case what == "mode" && key == "Mode":
			return value, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", fmt.Errorf("ZooKeeper does not serve: its srvr has no %s", what)
}
