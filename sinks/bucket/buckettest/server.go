// Package buckettest is an in-memory server for the part of S3 and of Azure Blob Storage that
// package bucket uses, with configurable faults. It does not check signatures.
package buckettest

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is a store with one bucket. It is a [http.Handler], and a [http.RoundTripper] that needs no
// socket.
type Server struct {
	Scheme string // of its addresses: s3 or az

	bucket   string
	protocol protocol

	mu      sync.Mutex
	fault   func(w http.ResponseWriter, r *http.Request) bool
	loses   func(part int) bool
	objects map[string][]byte            // by key
	uploads map[string]map[string][]byte // that are not complete: their parts by id, in the order of the ids
	last    int                          // number of the last upload
}

// protocol is how a kind of store answers.
type protocol struct {
	serve   func(s *Server, w http.ResponseWriter, r *http.Request, key string, body []byte)
	content func(r *http.Request, body []byte) ([]byte, error) // the content of an upload, if it has arrived whole
	created int                                                // status after an upload

	noBucket, noObject, damaged, changed, exists string // error codes
	existsStatus                                 int
}

func newServer(scheme, bucket string, p protocol) *Server {
	return &Server{Scheme: scheme, bucket: bucket, protocol: p, objects: map[string][]byte{}, uploads: map[string]map[string][]byte{}}
}

// RoundTrip implements [http.RoundTripper].
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	asked := r.Clone(r.Context())
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	asked.Header = http.Header{}
	for name, values := range r.Header {
		asked.Header[http.CanonicalHeaderKey(name)] = values // like a server with a socket
	}
	s.ServeHTTP(w, asked)
	answer := w.Result()
	answer.Request = r
	return answer, asked.Body.Close()
}

// Refuse writes an error response of S3, which is also valid for Azure: that needs the code in a
// header.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("X-Ms-Error-Code", code)
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>refused by the test</Message></Error>", code)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if bucket != s.bucket {
		Refuse(w, http.StatusNotFound, s.protocol.noBucket)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		body, err = s.protocol.content(r, body)
	}
	if want := r.Header.Get("Content-Md5"); err == nil && want != "" {
		if sum := md5.Sum(body); base64.StdEncoding.EncodeToString(sum[:]) != want {
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		Refuse(w, http.StatusBadRequest, s.protocol.damaged)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.protocol.serve(s, w, r, key, body)
}

func tag(content []byte) string {
	sum := md5.Sum(content)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	content, ok := s.objects[key]
	if !ok {
		Refuse(w, http.StatusNotFound, s.protocol.noObject)
		return
	}
	w.Header().Set("Etag", tag(content))
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), bytes.NewReader(content))
}

// put replaces an object if the conditions of the request are met.
func (s *Server) put(w http.ResponseWriter, r *http.Request, key string, content []byte) {
	old, there := s.objects[key]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case match != "" && (!there || tag(old) != match):
		Refuse(w, http.StatusPreconditionFailed, s.protocol.changed)
		return
	case none == "*" && there:
		Refuse(w, s.protocol.existsStatus, s.protocol.exists)
		return
	}
	s.objects[key] = content
	w.Header().Set("Etag", tag(content))
	w.WriteHeader(s.protocol.created)
}

// putPart adds a part to an upload.
func (s *Server) putPart(upload, part string, content []byte) {
	if s.uploads[upload] == nil {
		s.uploads[upload] = map[string][]byte{}
	}
	lost := s.loses != nil && s.loses(len(s.uploads[upload])+1)
	if s.uploads[upload][part] = content; lost {
		s.uploads[upload][part] = nil
	}
}

// page is the maximum number of objects in a page of a listing, small enough that tests read several
// pages.
const page = 20

// list returns a page of the keys after one, and the key after which the next page begins, or "".
func (s *Server) list(prefix, after string) (keys []string, next string) {
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if len(keys) == page {
			return keys, keys[page-1]
		}
		keys = append(keys, key)
	}
	return keys, ""
}

func write(w http.ResponseWriter, result any) {
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(result) // fails if the client has disconnected
}

// Objects returns the content of all objects, by key.
func (s *Server) Objects() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// Put writes an object; nil deletes it.
func (s *Server) Put(key string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key] = content; content == nil {
		delete(s.objects, key)
	}
}

// Uploads returns the number of incomplete uploads.
func (s *Server) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// SetFault sets a function that is called for each request. If it returns true, it has written the response.
func (s *Server) SetFault(fault func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// SetLoses sets a function that reports whether a part of an upload is lost although the store confirms it.
func (s *Server) SetLoses(loses func(part int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loses = loses
}
