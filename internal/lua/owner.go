package lua

import (
	"strconv"
	"strings"
)

// RandomLength is how long the random part is that ends every owner value: a UUID of
// version 4 as text.
const RandomLength = 36

// ValueLabel is how a hold's value stands in the owner value, between the label of its
// Locker and the random part: followed by its length, since both are any text.
func ValueLabel(value string) string {
	if value == "" {
		return ""
	}
	return value + "#" + strconv.Itoa(len(value)) + "#"
}

// ValueOf is the value that the owner value was made with, or the label of its Locker
// where it was made with none. It returns false where this is no owner value of this
// library's: another lock client's, or no lock at all.
func ValueOf(owner string) (value string, ours bool) {
	at := len(owner) - RandomLength
	if at < 0 || !isRandom(owner[at:]) {
		return "", false
	}
	label := owner[:at]
	text, found := strings.CutSuffix(label, "#")
	if i := strings.LastIndexByte(text, '#'); found && i >= 0 {
		if n, err := strconv.ParseUint(text[i+1:], 10, 16); err == nil && int(n) <= i {
			return text[i-int(n) : i], true
		}
	}
	return label, true
}

// isRandom tells whether s, of RandomLength bytes, is a UUID of version 4.
func isRandom(s string) bool {
	for i := range RandomLength {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		case 14:
			if c != '4' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}
