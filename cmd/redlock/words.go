package main

import (
	"regexp"
	"strings"
)

// flagsOf are the flags of what the library's messages call options. An option that is
// not here has no flag, and keeps its name.
var flagsOf = map[string]string{
	"WithHolder":         "--holder",
	"WithLimit":          "--limit",
	"WithMaxHold":        "--max-hold",
	"WithMaxTTL":         "--max-ttl",
	"WithNodeNames":      "--node-names",
	"WithNodeTimeout":    "--node-timeout",
	"WithPrefix":         "--prefix",
	"WithRevocation":     "--revocable",
	"WithShared":         "--shared",
	"WithStrictRecovery": "--strict-recovery",
	"WithTLS":            "--cacert",
	"WithTTL":            "--ttl",
	"WithValue":          "--value",
	"WithWait":           "--wait",
}

var (
	option = regexp.MustCompile(`\bWith[A-Z][A-Za-z]*\b`)
	// both are messages that name the flag as well.
	both = strings.NewReplacer(
		"WithNodeNames, or --node-names", "--node-names",
		"--cacert, WithTLS, or the client's TLSConfig", "--cacert",
		"--cert and --key, WithTLS", "--cert and --key",
	)
)

// worded is a message of the library as the command says it: with its flags, and without
// passwords.
func worded(message string) string {
	return redact(option.ReplaceAllStringFunc(both.Replace(message), func(name string) string {
		if f := flagsOf[name]; f != "" {
			return f
		}
		return name
	}))
}

// advice is worded for who configures programs as well: it names both.
func advice(message string) string {
	return redact(option.ReplaceAllStringFunc(both.Replace(message), func(name string) string {
		if f := flagsOf[name]; f != "" {
			return f + " (" + name + ")"
		}
		return name
	}))
}

// oneLine is an error without the line breaks of joined ones.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return worded(strings.ReplaceAll(err.Error(), "\n", "; "))
}
