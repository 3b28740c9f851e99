// Package redlock holds one lock across N independent Redis masters, strictly.
package redlock
