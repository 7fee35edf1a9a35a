package buckettest

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// New returns an empty S3 store.
func New(bucket string) *Server {
	return newServer("s3", bucket, protocol{
		serve: (*Server).serveS3, content: dechunk, created: http.StatusOK,
		noBucket: "NoSuchBucket", noObject: "NoSuchKey", damaged: "IncompleteBody",
		changed: "PreconditionFailed", exists: "PreconditionFailed", existsStatus: http.StatusPreconditionFailed,
	})
}

func (s *Server) serveS3(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	query := r.URL.Query()
	id := query.Get("uploadId")
	switch {
	case r.Method == http.MethodGet && query.Has("uploads"):
		s.listUploads(w, query.Get("prefix"))
	case r.Method == http.MethodGet && key == "":
		s.listObjects(w, query.Get("prefix"), query.Get("continuation-token"))
	case r.Method == http.MethodPost && query.Has("uploads"):
		s.last++
		id := fmt.Sprintf("%d/%s", s.last, key)
		s.uploads[id] = map[string][]byte{}
		write(w, struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			UploadID string   `xml:"UploadId"`
		}{UploadID: id})
	case id != "" && s.uploads[id] == nil:
		Refuse(w, http.StatusNotFound, "NoSuchUpload")
	case r.Method == http.MethodPut && id != "":
		number, _ := strconv.Atoi(query.Get("partNumber"))
		s.putPart(id, fmt.Sprintf("%05d", number), body)
		w.Header().Set("Etag", tag(body))
	case r.Method == http.MethodPost:
		s.completeUpload(w, id, key)
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		s.get(w, r, key)
	case r.Method == http.MethodPut:
		s.put(w, r, key, body)
	case r.Method == http.MethodDelete && id != "":
		delete(s.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		Refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

// dechunk returns the body of a request without the encoding of signed chunks that some have.
func dechunk(r *http.Request, body []byte) (all []byte, err error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return body, nil
	}
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

// completeUpload makes an object of the parts of an upload.
func (s *Server) completeUpload(w http.ResponseWriter, id, key string) {
	var whole []byte
	for _, part := range slices.Sorted(maps.Keys(s.uploads[id])) {
		whole = append(whole, s.uploads[id][part]...)
	}
	s.objects[key] = whole
	delete(s.uploads, id)
	write(w, struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket  string
		ETag    string
	}{Bucket: s.bucket, ETag: tag(whole)})
}

func (s *Server) listObjects(w http.ResponseWriter, prefix, after string) {
	type object struct {
		Key  string
		Size int
	}
	keys, next := s.list(prefix, after)
	result := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []object
	}{IsTruncated: next != "", NextContinuationToken: next}
	for _, key := range keys {
		result.Contents = append(result.Contents, object{key, len(s.objects[key])})
	}
	write(w, result)
}

func (s *Server) listUploads(w http.ResponseWriter, prefix string) {
	type upload struct {
		Key      string
		UploadID string `xml:"UploadId"`
	}
	result := struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Upload  []upload
	}{}
	for _, id := range slices.Sorted(maps.Keys(s.uploads)) {
		if _, key, _ := strings.Cut(id, "/"); strings.HasPrefix(key, prefix) {
			result.Upload = append(result.Upload, upload{key, id})
		}
	}
	write(w, result)
}
