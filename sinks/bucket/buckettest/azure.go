package buckettest

import (
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// NewAzure returns an empty store with the API of Azure Blob Storage. It has one container, and accepts
// any account.
func NewAzure(container string) *Server {
	s := New(container)
	s.Scheme, s.blocks = "az", map[string]map[string][]byte{}
	return s
}

// azure handles a request to Azure.
func (s *Server) azure(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && query.Get("comp") == "list":
		s.listBlobs(w, query.Get("prefix"), query.Get("delimiter"), query.Get("marker"))
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		s.getBlob(w, r, key)
	case r.Method == http.MethodPut && query.Get("comp") == "block":
		s.putBlock(w, key, query.Get("blockid"), body)
	case r.Method == http.MethodPut && query.Get("comp") == "blocklist":
		s.putBlockList(w, r, key, body)
	case r.Method == http.MethodPut && r.Header.Get("X-Ms-Blob-Type") == "BlockBlob":
		s.putBlob(w, r, key, body)
	case r.Method == http.MethodDelete && s.objects[key] == nil:
		Refuse(w, http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusAccepted)
	default:
		Refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *Server) getBlob(w http.ResponseWriter, r *http.Request, key string) {
	content, ok := s.objects[key]
	if !ok {
		Refuse(w, http.StatusNotFound, "BlobNotFound")
		return
	}
	w.Header().Set("Etag", tag(content))
	w.Header().Set("Last-Modified", "Mon, 02 Nov 2026 00:00:00 GMT")
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(content) // fails if the client has disconnected
	}
}

// putBlob replaces a blob if the conditions of the request are met. It discards uncommitted blocks.
func (s *Server) putBlob(w http.ResponseWriter, r *http.Request, key string, content []byte) {
	old, there := s.objects[key]
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case match != "" && (!there || tag(old) != match):
		Refuse(w, http.StatusPreconditionFailed, "ConditionNotMet")
		return
	case none == "*" && there:
		Refuse(w, http.StatusConflict, "BlobAlreadyExists")
		return
	}
	s.objects[key] = content
	delete(s.blocks, key)
	w.Header().Set("Etag", tag(content))
	w.WriteHeader(http.StatusCreated)
}

func (s *Server) putBlock(w http.ResponseWriter, key, id string, body []byte) {
	if s.blocks[key] == nil {
		s.blocks[key] = map[string][]byte{}
	}
	for other := range s.blocks[key] {
		if len(other) != len(id) {
			Refuse(w, http.StatusBadRequest, "InvalidBlobOrBlock")
			return
		}
	}
	if s.Loses == nil || !s.Loses(len(s.blocks[key])+1) {
		s.blocks[key][id] = body
	}
	w.WriteHeader(http.StatusCreated)
}

// putBlockList creates a blob from blocks.
func (s *Server) putBlockList(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	var list struct {
		Latest []string
	}
	if err := xml.Unmarshal(body, &list); err != nil {
		Refuse(w, http.StatusBadRequest, "InvalidXmlDocument")
		return
	}
	var content []byte
	for _, id := range list.Latest {
		block, ok := s.blocks[key][id]
		if !ok {
			Refuse(w, http.StatusBadRequest, "InvalidBlockList")
			return
		}
		content = append(content, block...)
	}
	s.putBlob(w, r, key, content)
}

type blobItem struct {
	Name       string
	Properties struct {
		Size     int    `xml:"Content-Length"`
		ETag     string `xml:"Etag"`
		Modified string `xml:"Last-Modified"`
	}
}

func (s *Server) listBlobs(w http.ResponseWriter, prefix, delimiter, after string) {
	result := struct {
		XMLName    xml.Name   `xml:"EnumerationResults"`
		Blobs      []blobItem `xml:"Blobs>Blob"`
		NextMarker string
	}{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		below, ok := strings.CutPrefix(key, prefix)
		if !ok || key <= after || delimiter != "" && strings.Contains(below, delimiter) {
			continue
		}
		if len(result.Blobs) == page {
			result.NextMarker = result.Blobs[page-1].Name
			break
		}
		item := blobItem{Name: key}
		item.Properties.Size, item.Properties.ETag = len(s.objects[key]), tag(s.objects[key])
		item.Properties.Modified = "Mon, 02 Nov 2026 00:00:00 GMT"
		result.Blobs = append(result.Blobs, item)
	}
	write(w, result)
}

// Blocks returns the number of uncommitted blocks.
func (s *Server) Blocks() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, blocks := range s.blocks {
		n += len(blocks)
	}
	return n
}
