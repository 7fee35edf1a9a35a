// Package buckettest is an in-memory server for the part of S3 and of Azure Blob Storage that
// package bucket uses, with configurable faults. It does not check signatures.
package buckettest

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc64"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Server is a store with one bucket. It is a [http.Handler], and a [http.RoundTripper] that needs no
// socket.
type Server struct {
	Scheme string // of its addresses: s3 or az
	Bucket string

	// Fault is called for each request. If it returns true, it has written the response.
	Fault func(w http.ResponseWriter, r *http.Request) bool

	// Loses reports whether a part of an upload is lost although the store confirms it.
	Loses func(part int) bool

	mu      sync.Mutex
	objects map[string][]byte            // by key
	uploads map[string]*upload           // by id
	blocks  map[string]map[string][]byte // of Azure: by key and block id
	last    int                          // id of the last upload
	asked   []string                     // the requests: method and key
}

type upload struct {
	key   string
	parts map[int][]byte
}

// New returns an empty S3 store.
func New(bucket string) *Server {
	return &Server{Scheme: "s3", Bucket: bucket, objects: map[string][]byte{}, uploads: map[string]*upload{}}
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
	answer.ContentLength = int64(w.Body.Len())
	if length := answer.Header.Get("Content-Length"); length != "" {
		answer.ContentLength, _ = strconv.ParseInt(length, 10, 64) // of a HEAD
	}
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
	s.asked = append(s.asked, r.Method+" "+key)
	fault := s.Fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if bucket != s.Bucket {
		Refuse(w, http.StatusNotFound, map[string]string{"s3": "NoSuchBucket", "az": "ContainerNotFound"}[s.Scheme])
		return
	}
	body, err := content(r)
	if err != nil {
		Refuse(w, http.StatusBadRequest, map[string]string{"s3": "IncompleteBody", "az": "Crc64Mismatch"}[s.Scheme])
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Scheme == "az" {
		s.azure(w, r, key, body)
		return
	}
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && query.Has("uploads"):
		s.listUploads(w, query.Get("prefix"))
	case r.Method == http.MethodGet && key == "":
		s.list(w, query.Get("prefix"), query.Get("continuation-token"))
	case r.Method == http.MethodPost && query.Has("uploads"):
		s.last++
		id := strconv.Itoa(s.last)
		s.uploads[id] = &upload{key, map[int][]byte{}}
		write(w, struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			Bucket   string
			Key      string
			UploadID string `xml:"UploadId"`
		}{Bucket: bucket, Key: key, UploadID: id})
	case query.Has("uploadId"):
		s.part(w, r, key, body)
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		s.get(w, r, key)
	case r.Method == http.MethodPut:
		s.put(w, r, key, body)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		Refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

// content returns the body of a request, without the encoding of chunks that some have.
func content(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err == nil && strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		body, err = dechunk(body)
	}
	if err != nil {
		return nil, err
	}
	if want := r.Header.Get("Content-Md5"); want != "" {
		if sum := md5.Sum(body); base64.StdEncoding.EncodeToString(sum[:]) != want {
			return nil, io.ErrUnexpectedEOF
		}
	}
	if want := r.Header.Get("X-Ms-Content-Crc64"); want != "" {
		sum := binary.LittleEndian.AppendUint64(nil, crc64.Checksum(body, crc64.MakeTable(0x9A6C9329AC4BC9B5)))
		if base64.StdEncoding.EncodeToString(sum) != want {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return body, nil
}

// dechunk decodes a body with signed chunks.
func dechunk(body []byte) (all []byte, err error) {
	in := bufio.NewReader(bytes.NewReader(body))
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		length, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(length, 16, 64)
		if err != nil || n == 0 {
			return all, err
		}
		some := make([]byte, n+2) // with the line end
		if _, err := io.ReadFull(in, some); err != nil {
			return nil, err
		}
		all = append(all, some[:n]...)
	}
}

func tag(content []byte) string {
	sum := md5.Sum(content)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	content, ok := s.objects[key]
	switch {
	case !ok:
		Refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	case r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != tag(content):
		Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	w.Header().Set("Etag", tag(content))
	w.Header().Set("Last-Modified", "Mon, 02 Nov 2026 00:00:00 GMT")
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(content) // fails if the client has disconnected
	}
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	old, there := s.objects[key]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if match != "" && (!there || tag(old) != match) || none == "*" && there {
		Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	s.objects[key] = body
	w.Header().Set("Etag", tag(body))
}

// part handles the requests of a multipart upload.
func (s *Server) part(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	id := r.URL.Query().Get("uploadId")
	u := s.uploads[id]
	if u == nil {
		Refuse(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	switch r.Method {
	case http.MethodPut:
		n, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
		u.parts[n] = body
		if s.Loses != nil && s.Loses(n) {
			u.parts[n] = nil
		}
		w.Header().Set("Etag", tag(body))
	case http.MethodPost:
		var whole []byte
		for _, n := range slices.Sorted(maps.Keys(u.parts)) {
			whole = append(whole, u.parts[n]...)
		}
		s.objects[key] = whole
		delete(s.uploads, id)
		write(w, struct {
			XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
			Bucket  string
			Key     string
			ETag    string
		}{Bucket: s.Bucket, Key: key, ETag: tag(whole)})
	case http.MethodDelete:
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	}
}

// page is the maximum number of objects in a page of a listing, small enough that tests read several
// pages.
const page = 20

type listed struct {
	Key          string
	Size         int
	ETag         string
	LastModified string
}

func (s *Server) list(w http.ResponseWriter, prefix, after string) {
	result := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name                  string
		Prefix                string
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []listed
	}{Name: s.Bucket, Prefix: prefix}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, prefix) || cmp.Compare(key, after) <= 0 {
			continue
		}
		if len(result.Contents) == page {
			result.IsTruncated, result.NextContinuationToken = true, result.Contents[page-1].Key
			break
		}
		result.Contents = append(result.Contents,
			listed{key, len(s.objects[key]), tag(s.objects[key]), "2026-11-02T00:00:00.000Z"})
	}
	write(w, result)
}

func (s *Server) listUploads(w http.ResponseWriter, prefix string) {
	type begun struct {
		Key       string
		UploadID  string `xml:"UploadId"`
		Initiated string
	}
	result := struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Bucket  string
		Prefix  string
		Upload  []begun
	}{Bucket: s.Bucket, Prefix: prefix}
	for _, id := range slices.Sorted(maps.Keys(s.uploads)) {
		if u := s.uploads[id]; strings.HasPrefix(u.key, prefix) {
			result.Upload = append(result.Upload, begun{u.key, id, "2026-11-02T00:00:00.000Z"})
		}
	}
	write(w, result)
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

// SetFault replaces Fault. It may be called during requests.
func (s *Server) SetFault(fault func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Fault = fault
}

// SetLoses replaces Loses. It may be called during requests.
func (s *Server) SetLoses(loses func(part int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Loses = loses
}

// Asked returns the requests since its last call, each as method and key.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}
