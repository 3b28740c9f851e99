package election

import (
	"strconv"
	"strings"

	"github.com/quorumkit/redlock/internal/quorum"
)

// String is a hint as it is published: the token, and the owner value behind it.
func (h Hint) String() string { return strconv.FormatUint(uint64(h.Token), 10) + " " + h.Owner }

// ParseHint reads a message; false: it says no hold, and brings about a look all the same.
func ParseHint(message string) (Hint, bool) {
	token, owner, _ := strings.Cut(message, " ")
	t, err := strconv.ParseUint(token, 10, 64)
	if err != nil || t == 0 || quorum.Token(t) > quorum.MaxToken || owner == "" {
		return Hint{}, false
	}
	return Hint{Owner: owner, Token: quorum.Token(t)}, true
}
