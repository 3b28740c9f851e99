package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// errReply is what a server answered instead of a value.
var errReply = errors.New("error reply")

// dial opens a plain socket to a server.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// appendArray begins a command of n words.
func appendArray(b []byte, n int) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\r', '\n')
}

// appendBulk adds one word.
func appendBulk(b []byte, word string) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(word)), 10)
	b = append(b, '\r', '\n')
	b = append(b, word...)
	return append(b, '\r', '\n')
}

// appendInt adds one word that is a number.
func appendInt(b []byte, n int64) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], n, 10)
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(d)), 10)
	b = append(b, '\r', '\n')
	b = append(b, d...)
	return append(b, '\r', '\n')
}

// appendEval begins an EVALSHA whose keys and arguments follow.
func appendEval(b []byte, sha string, keys, args int) []byte {
	b = appendArray(b, 3+keys+args)
	b = appendBulk(b, "EVALSHA")
	b = appendBulk(b, sha)
	return appendInt(b, int64(keys))
}

// readLine returns one line of a reply without its end. It is valid until the
// next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, io.ErrUnexpectedEOF
	}
	return line[:len(line)-2], nil
}

// number reads the digits of a header line: replies hold nothing else here, so
// the general parser would only cost time.
func number(digits []byte) int64 {
	neg := len(digits) > 0 && digits[0] == '-'
	if neg {
		digits = digits[1:]
	}
	var n int64
	for _, d := range digits {
		n = n*10 + int64(d-'0')
	}
	if neg {
		return -n
	}
	return n
}

// readInt reads an integer reply.
func readInt(r *bufio.Reader) (int64, error) {
	line, err := readLine(r)
	if err != nil {
		return 0, err
	}
	if line[0] != ':' {
		return 0, fmt.Errorf("%w: got %q; want an integer", errReply, line)
	}
	return number(line[1:]), nil
}

// readInts reads an array of integers into dst, whose length it must have.
func readInts(r *bufio.Reader, dst []int64) error {
	line, err := readLine(r)
	if err != nil {
		return err
	}
	if line[0] != '*' || number(line[1:]) != int64(len(dst)) {
		return fmt.Errorf("%w: got %q; want an array of %d", errReply, line, len(dst))
	}
	for i := range dst {
		if dst[i], err = readInt(r); err != nil {
			return err
		}
	}
	return nil
}
