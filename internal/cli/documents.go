package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Documents for other programs, made of the same commands and flags as help: a page for
// man(1), and completion for shells. Libraries that write them want their own commands in
// the place of package flag's, or have no commands at all.

// completions are the lines that a shell's configuration evaluates. The shell then asks the
// program itself at each Tab, so that they need no change with a newer program.
var completions = map[string]string{
	"bash": "complete -o default -C '%[1]s __complete' %[1]s\n",
	"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C '%[1]s __complete' %[1]s\n",
	"fish": "complete -c %[1]s -a '(COMP_LINE=(commandline -cp) %[1]s __complete)'\n",
}

// documents are the help pages of what is no command of the program's.
var documents = map[string]string{
	"man":        "usage: %[1]s man\n\nPrints the page for man(1): %[1]s man >/usr/local/share/man/man1/%[1]s.1\n",
	"completion": "usage: %[1]s completion SHELL\n\nPrints what has bash, zsh or fish complete commands and flags: source <(%[1]s completion bash)\n",
}

// document prints what the arguments ask for; false if they name a command of the program's.
func (p *Program) document(args []string) (bool, error) {
	var text string
	switch args[0] {
	case "man":
		text = p.Man()
	case "completion":
		if len(args) != 2 || completions[args[1]] == "" {
			return true, Usagef("completion: name the shell: bash, zsh or fish")
		}
		text = fmt.Sprintf(completions[args[1]], p.Console.Name)
	case "__complete":
		for _, word := range p.complete(p.Console.Getenv("COMP_LINE")) {
			text += word + "\n"
		}
	default:
		return false, nil
	}
	_, err := io.WriteString(p.Console.Out, text)
	return true, err
}

// complete is what the last word of a command line may become: a word of a command's name,
// or a flag. Nothing is said of arguments and of the values of flags: there the shell
// completes files.
func (p *Program) complete(line string) (words []string) {
	before := strings.Fields(line)
	last := ""
	if n := len(before); n > 0 && !strings.HasSuffix(line, " ") {
		before, last = before[:n-1], before[n-1]
	}
	names := slices.DeleteFunc(before[min(1, len(before)):], func(word string) bool { return word == "help" || word[0] == '-' })
	offer := func(word string) {
		if word != "" && strings.HasPrefix(word, last) && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if strings.HasPrefix(last, "-") {
		fs := p.common()
		if c, _ := p.find(names); c != nil {
			c.Define(fs)
		}
		fs.VisitAll(func(f *flag.Flag) { offer(dashed(f)) })
		return words
	}
	for _, c := range p.Commands {
		if rest, ok := strings.CutPrefix(c.Name+" ", strings.Join(append(slices.Clone(names), ""), " ")); ok {
			offer(strings.SplitN(rest, " ", 2)[0])
		}
	}
	return words
}

// Man is the program's page for man(1): section 1, and all commands on one page.
func (p *Program) Man() string {
	var b strings.Builder
	name := p.Console.Name
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(name)), roff(name), roff(strings.TrimPrefix(p.Intro, name+" ")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I COMMAND\n[flags] [arguments]\n.SH DESCRIPTION\n%s.SH COMMANDS\n", roff(name), paragraphs(p.Outro))
	for _, c := range p.Commands {
		own := flags(c.Name)
		c.Define(own)
		fmt.Fprintf(&b, ".SS %s\n%s%s", roff(strings.Join([]string{name, c.Name, c.Synopsis}, " ")), paragraphs(c.About), flagParagraphs(own))
	}
	heading, table, _ := strings.Cut(p.Statuses, "\n")
	fmt.Fprintf(&b, ".SH FLAGS OF EVERY COMMAND\n%s.SH %s\n%s", flagParagraphs(p.common()), strings.ToUpper(strings.TrimSuffix(heading, ":")), paragraphs(table))
	return b.String()
}

// roff keeps a text from being read as commands of roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// paragraphs fills what fill fills, and leaves examples and tables as they are.
func paragraphs(text string) string {
	var b strings.Builder
	kept := false
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		if keep := strings.HasPrefix(line, " "); keep != kept {
			kept = keep
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[keep])
		}
		if line == "" {
			line = ".PP"
		} else {
			line = roff(line)
		}
		b.WriteString(line + "\n")
	}
	if kept {
		b.WriteString(".fi\n")
	}
	return b.String()
}

func flagParagraphs(fs *flag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *flag.Flag) {
		name, about := explained(f)
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(name), roff(strings.ReplaceAll(about, "\n", " ")))
	})
	return b.String()
}
