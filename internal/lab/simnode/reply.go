package simnode

import (
	"strconv"
	"strings"
)

// reply is the bytes of a reply while they are written.
type reply struct {
	buf   []byte
	resp3 bool
}

func (r *reply) line(kind byte, text string) {
	r.buf = append(r.buf, kind)
	r.buf = append(r.buf, text...)
	r.buf = append(r.buf, '\r', '\n')
}

func (r *reply) number(kind byte, n int64) {
	r.buf = append(r.buf, kind)
	r.buf = strconv.AppendInt(r.buf, n, 10)
	r.buf = append(r.buf, '\r', '\n')
}

func (r *reply) status(text string) { r.line('+', text) }
func (r *reply) fail(text string) {
	r.line('-', strings.NewReplacer("\r", " ", "\n", " ").Replace(text))
}
func (r *reply) int(n int64) { r.number(':', n) }
func (r *reply) array(n int) { r.number('*', int64(n)) }

// pairs begins a map of n pairs, which RESP2 has as a list.
func (r *reply) pairs(n int) {
	if r.resp3 {
		r.number('%', int64(n))
	} else {
		r.array(2 * n)
	}
}

func (r *reply) bulk(text string) {
	r.number('$', int64(len(text)))
	r.buf = append(r.buf, text...)
	r.buf = append(r.buf, '\r', '\n')
}

func (r *reply) null() {
	if r.resp3 {
		r.buf = append(r.buf, "_\r\n"...)
	} else {
		r.buf = append(r.buf, "$-1\r\n"...)
	}
}

// bulkIf is a bulk, or a null where there is none.
func (r *reply) bulkIf(text string, there bool) {
	if there {
		r.bulk(text)
	} else {
		r.null()
	}
}
