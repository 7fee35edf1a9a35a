package buckettest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"hash/crc64"
	"io"
	"net/http"
)

// NewAzure returns an empty store with the API of Azure Blob Storage. It has one container, and accepts
// any account.
func NewAzure(container string) *Server {
	return newServer("az", container, protocol{
		serve: (*Server).serveAzure, content: verifyCRC, created: http.StatusCreated,
		noBucket: "ContainerNotFound", noObject: "BlobNotFound", damaged: "Crc64Mismatch",
		changed: "ConditionNotMet", exists: "BlobAlreadyExists", existsStatus: http.StatusConflict,
	})
}

func (s *Server) serveAzure(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && query.Get("comp") == "list":
		s.listBlobs(w, query.Get("prefix"), query.Get("marker"))
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		s.get(w, r, key)
	case r.Method == http.MethodPut && query.Get("comp") == "block":
		s.putPart(key, query.Get("blockid"), body)
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPut && query.Get("comp") == "blocklist":
		s.putBlockList(w, r, key, body)
	case r.Method == http.MethodPut && r.Header.Get("X-Ms-Blob-Type") == "BlockBlob":
		s.put(w, r, key, body)
	case r.Method == http.MethodDelete && s.objects[key] == nil:
		Refuse(w, http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusAccepted)
	default:
		Refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func verifyCRC(r *http.Request, body []byte) ([]byte, error) {
	sum := binary.LittleEndian.AppendUint64(nil, crc64.Checksum(body, crc64.MakeTable(0x9A6C9329AC4BC9B5)))
	if want := r.Header.Get("X-Ms-Content-Crc64"); want != "" && base64.StdEncoding.EncodeToString(sum) != want {
		return nil, io.ErrUnexpectedEOF
	}
	return body, nil
}

// putBlockList creates a blob from blocks, and discards the others.
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
		block := s.uploads[key][id]
		if block == nil {
			Refuse(w, http.StatusBadRequest, "InvalidBlockList")
			return
		}
		content = append(content, block...)
	}
	delete(s.uploads, key)
	s.put(w, r, key, content)
}

func (s *Server) listBlobs(w http.ResponseWriter, prefix, after string) {
	type blob struct {
		Name string
		Size int `xml:"Properties>Content-Length"`
	}
	result := struct {
		XMLName    xml.Name `xml:"EnumerationResults"`
		Blobs      []blob   `xml:"Blobs>Blob"`
		NextMarker string
	}{}
	keys, next := s.list(prefix, after)
	result.NextMarker = next
	for _, key := range keys {
		result.Blobs = append(result.Blobs, blob{key, len(s.objects[key])})
	}
	write(w, result)
}
