package main

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Store is an object store with conditional writes, as far as this example needs
// one: S3, Google Cloud Storage and Azure Blob Storage answer alike.
type Store struct {
	mu      sync.Mutex // guards the two below
	objects map[string]object
	version int
}

type object struct {
	body, etag, token string
}

func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, found := s.objects[r.URL.Path]
	switch r.Method {
	case http.MethodHead, http.MethodGet:
		if !found {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", old.etag)
		if old.token != "" {
			w.Header().Set(tokenHeader, old.token)
		}
		_, _ = io.WriteString(w, old.body)
	case http.MethodPut:
		if match := r.Header.Get("If-Match"); (match != "" && match != old.etag) || (found && r.Header.Get("If-None-Match") == "*") {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		s.version++
		if s.objects == nil {
			s.objects = make(map[string]object)
		}
		s.objects[r.URL.Path] = object{string(body), fmt.Sprintf("%q", fmt.Sprint(s.version)), r.Header.Get(tokenHeader)}
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// body returns what stands in an object.
func (s *Store) body(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path].body
}
