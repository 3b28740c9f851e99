package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

// tokenHeader is the object's user metadata that keeps what was seen: one token, or
// two numbers once sharers came after the last exclusive holder (fencing.Seen). It
// is S3's name for it, other stores have the like.
const tokenHeader = "X-Amz-Meta-Fencing-Token" //nolint:gosec // a header's name and no credential

// maxTries bounds how often Put runs again because another writer came first.
// Each of those writers had a token, so under one lock there are few of them.
const maxTries = 10

// Guard writes objects in a store with conditional writes (ETag, If-Match,
// If-None-Match: *). An object's URL is the name of its lock, under which a context
// says that a token is shared (fencing.IsShared).
//
// Unit of atomicity: one conditional PUT, which replaces the object and its
// metadata, the token among them, or neither.
//
// Not promised:
//   - anything about an unconditional PUT or a DELETE by somebody else: a deleted
//     object takes its token along, and the next writer is a first one;
//   - two objects at once: each has its own token;
//   - a store that ignores If-Match. Try it once with a wrong ETag: a store that
//     answers 200 cannot be guarded this way;
//   - that a reader sees the newest object, where the store or a cache before it
//     is not strongly consistent. The write is refused by the store itself.
type Guard struct {
	client *http.Client
}

// Put replaces the object at url by body, if token is accepted by what the object
// has seen. It returns a *fencing.StaleError, what fencing.Seen.Accept returns for
// bad input, fencing.ErrCorrupt when the metadata is no token, or what the store
// said. After a failed request the object may have been written; under the same
// token Put may be called again.
func (g *Guard) Put(ctx context.Context, url string, token redlock.Token, body string) error {
	for range maxTries {
		etag, seen, err := g.head(ctx, url)
		if err != nil {
			return err
		}
		seen, err = seen.Accept(url, token, fencing.IsShared(ctx, url, token))
		if err != nil {
			return err
		}
		done, err := g.putIf(ctx, url, etag, seen, body)
		if done || err != nil {
			return err
		}
		// Somebody wrote in between: what was compared is no longer there.
	}
	return fmt.Errorf("put %s: another writer came first %d times", url, maxTries)
}

// head returns the object's ETag and what it has seen; both are zero for an object
// that is not there, and the latter for one that was never guarded.
func (g *Guard) head(ctx context.Context, url string) (string, fencing.Seen, error) {
	resp, err := g.send(ctx, http.MethodHead, url, "", nil)
	if err != nil {
		return "", fencing.Seen{}, err
	}
	switch resp.code {
	case http.StatusNotFound:
		return "", fencing.Seen{}, nil
	case http.StatusOK:
	default:
		return "", fencing.Seen{}, fmt.Errorf("head %s: %s", url, resp.status)
	}
	etag := resp.header.Get("ETag")
	if etag == "" || strings.HasPrefix(etag, "W/") {
		return "", fencing.Seen{}, fmt.Errorf("head %s: the store gave no strong ETag: %q", url, etag)
	}
	text := resp.header.Get(tokenHeader)
	if text == "" {
		return etag, fencing.Seen{}, nil
	}
	seen, err := fencing.ParseSeen(text)
	if err != nil {
		return "", fencing.Seen{}, fmt.Errorf("head %s: %w", url, err)
	}
	return etag, seen, nil
}

// putIf writes if the object is still the one with etag, or still not there. It
// reports whether it did.
func (g *Guard) putIf(ctx context.Context, url, etag string, seen fencing.Seen, body string) (bool, error) {
	condition := http.Header{"If-None-Match": {"*"}}
	if etag != "" {
		condition = http.Header{"If-Match": {etag}}
	}
	condition.Set(tokenHeader, seen.String())
	resp, err := g.send(ctx, http.MethodPut, url, body, condition)
	if err != nil {
		return false, err
	}
	switch resp.code {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		return true, nil
	case http.StatusPreconditionFailed, http.StatusConflict: // S3: 409 for two at the same moment
		return false, nil
	}
	return false, fmt.Errorf("put %s: %s", url, resp.status)
}

// answer is what is left of a response when its body has been read.
type answer struct {
	code   int
	status string
	header http.Header
}

func (g *Guard) send(ctx context.Context, method, url, body string, header http.Header) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	_, copyErr := io.Copy(io.Discard, resp.Body)
	return answer{resp.StatusCode, resp.Status, resp.Header}, errors.Join(copyErr, resp.Body.Close())
}
