package lua

import (
	"strconv"
	"strings"
)

// RandomLength is how long the random part is that ends every owner value: a UUID of
// version 4 as text.
const RandomLength = 36

// idLength is how long a Locker's id is: the 128 bits of a UUID as unpadded base64url.
const idLength = 22

// HolderLabel is how the label of a Locker begins its owner values; nothing does if it is empty.
func HolderLabel(label string) string {
	if label == "" {
		return ""
	}
	return label + "/"
}

// RevocationMark is the part of a revocable hold's owner value that tells which Locker to
// ask. It stands right behind that Locker's label, before a value: older clients then read
// the value as it is.
func RevocationMark(id string) string { return "~" + id + "~" }

// LockerOf is the id of the Locker to ask for the owner's hold; false if the hold is not
// revocable, or the owner value is not this library's.
func LockerOf(owner string) (id string, ok bool) {
	label, _, found := parts(owner)
	if !found || !EndsInMark(label) {
		return "", false
	}
	return label[len(label)-1-idLength : len(label)-1], true
}

// Unmarked is the owner value without its RevocationMark.
func Unmarked(owner string) string {
	label, _, found := parts(owner)
	if !found || !EndsInMark(label) {
		return owner
	}
	return withoutMark(label) + owner[len(label):]
}

// EndsInMark tells whether a label ends in a RevocationMark.
func EndsInMark(label string) bool {
	at := len(label) - len("~~") - idLength
	if at < 0 || label[at] != '~' || label[len(label)-1] != '~' {
		return false
	}
	for _, c := range []byte(label[at+1 : len(label)-1]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// withoutMark is the label without its mark, if it ends in one.
func withoutMark(label string) string {
	if !EndsInMark(label) {
		return label
	}
	return label[:len(label)-len("~~")-idLength]
}

// ValueLabel is how a hold's value stands in the owner value, between the label of its
// Locker and the random part: followed by its length, since both are any text.
func ValueLabel(value string) string {
	if value == "" {
		return ""
	}
	return value + "#" + strconv.Itoa(len(value)) + "#"
}

// ValueOf is the value that the owner value was made with, or the label of its Locker
// if it was made with none. It returns false if the owner value is not this
// library's: another lock client's, or no lock at all.
func ValueOf(owner string) (value string, ours bool) {
	label, value, ours := parts(owner)
	if value == "" {
		value = strings.TrimSuffix(withoutMark(label), "/")
	}
	return value, ours
}

// parts takes an owner value apart: the label of its Locker, with the mark if it has one,
// and the value; false if it is not this library's.
func parts(owner string) (label, value string, ours bool) {
	at := len(owner) - RandomLength
	if at < 0 || !isRandom(owner[at:]) {
		return "", "", false
	}
	label, value = valueIn(owner[:at])
	return label, value, true
}

// valueIn parts a label from what reads as a value behind it.
func valueIn(text string) (label, value string) {
	before, found := strings.CutSuffix(text, "#")
	if i := strings.LastIndexByte(before, '#'); found && i >= 0 {
		if n, err := strconv.ParseUint(before[i+1:], 10, 16); err == nil && int(n) <= i {
			return before[:i-int(n)], before[i-int(n) : i]
		}
	}
	return text, ""
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
