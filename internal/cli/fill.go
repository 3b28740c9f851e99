package cli

import (
	"strings"
	"unicode/utf8"
)

// PageWidth is what a line of output has at most, unless a single word or a name is longer.
const PageWidth = 80

// fill breaks the paragraphs of a text into lines of at most width. A line that begins
// with a blank stands as it is.
func fill(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, Wrap(strings.Join(paragraph, " "), width)...)
			paragraph = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' {
			end()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(out, "\n")
}

// Wrap breaks one paragraph into lines of at most width.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Note is a paragraph of a page whose lines behind the first are indented.
func Note(text string) string {
	const indent = "  "
	first := Wrap(text, PageWidth)
	if len(first) == 1 {
		return first[0] + "\n"
	}
	rest := strings.TrimSpace(strings.TrimPrefix(strings.Join(strings.Fields(text), " "), first[0]))
	return first[0] + "\n" + indent + strings.Join(Wrap(rest, PageWidth-len(indent)), "\n"+indent) + "\n"
}
