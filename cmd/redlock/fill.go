package main

import (
	"strings"
	"unicode/utf8"
)

// pageWidth is what a line of output has at most, unless a single word or a name is longer.
const pageWidth = 80

// fill breaks the paragraphs of a text into lines of at most width. A line that begins
// with a blank stands as it is.
func fill(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			out = append(out, wrap(strings.Join(paragraph, " "), width)...)
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

// wrap breaks one paragraph into lines of at most width.
func wrap(text string, width int) []string {
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

// note is a paragraph of a page whose lines behind the first are indented.
func note(text string) string {
	const indent = "  "
	first := wrap(text, pageWidth)
	if len(first) == 1 {
		return first[0] + "\n"
	}
	rest := strings.TrimSpace(strings.TrimPrefix(strings.Join(strings.Fields(text), " "), first[0]))
	return first[0] + "\n" + indent + strings.Join(wrap(rest, pageWidth-len(indent)), "\n"+indent) + "\n"
}
