package programtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"outlierd/sinks/bucket/buckettest"
)

// stores has the stores of scripts, by the folders of the scripts.
var stores sync.Map

// StoreVariables returns the environment variables with which outlierd uses a store on loopback.
func StoreVariables(url string) []string {
	return []string{
		"AWS_ENDPOINT_URL=" + url, "AWS_ACCESS_KEY_ID=AKIACANARY4711", "AWS_SECRET_ACCESS_KEY=CANARY-4711",
		"AZURE_STORAGE_SERVICE_ENDPOINT=" + url, "AZURE_STORAGE_ACCOUNT=acme",
		"AZURE_STORAGE_SAS_TOKEN=sp=rwdl&se=2126-11-02T10:00:00Z&sig=CANARY-4711",
	}
}

// storeCommands are the commands of scripts for a store, by name and number of arguments.
var storeCommands = map[string]func(s *buckettest.Server, args []string) error{
	"refuse 1": func(s *buckettest.Server, args []string) error { return refuse(s, args[0], "", "") },
	"refuse 3": func(s *buckettest.Server, args []string) error { return refuse(s, args[0], args[1], args[2]) },
	"serve 0": func(s *buckettest.Server, _ []string) error {
		s.SetFault(nil)
		s.SetLoses(nil)
		return nil
	},
	"cut 1": func(s *buckettest.Server, args []string) error {
		s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodGet && strings.Contains(r.URL.Path, args[0]) && cutObject(w, s, r)
		})
		return nil
	},
	"lose-part 1": func(s *buckettest.Server, args []string) error {
		lost, err := strconv.Atoi(args[0])
		s.SetLoses(func(part int) bool { return part == lost })
		return err
	},
	"lose 1": func(s *buckettest.Server, args []string) error {
		for key := range s.Objects() {
			if strings.Contains(key, "/"+args[0]+"/") {
				s.Put(key, nil)
			}
		}
		return nil
	},
	"drop 1": func(s *buckettest.Server, args []string) error {
		return eachObject(s, args[0], func(key string, _ []byte) { s.Put(key, nil) })
	},
	"flip 1": func(s *buckettest.Server, args []string) error {
		return eachObject(s, args[0], func(key string, content []byte) {
			content = slices.Clone(content)
			content[len(content)/2] ^= 1
			s.Put(key, content)
		})
	},
	"put 1": func(s *buckettest.Server, args []string) error {
		s.Put(args[0], []byte("of somebody else"))
		return nil
	},
	"has 1": func(s *buckettest.Server, args []string) error {
		return eachObject(s, args[0], func(string, []byte) {})
	},
	"count 1": func(s *buckettest.Server, args []string) error {
		if n := len(s.Objects()); strconv.Itoa(n) != args[0] || s.Uploads() > 0 {
			return fmt.Errorf("there are %d objects, and %d unfinished uploads", n, s.Uploads())
		}
		return nil
	},
}

// bucketStore is a command of scripts for a store on loopback with the bucket outliers:
//
//	store start [azure]           starts it, and sets the variables for outlierd
//	store refuse CODE             refuses every request
//	store refuse CODE METHOD KEY  refuses requests with METHOD about objects whose key contains KEY
//	store cut KEY                 truncates answers about objects whose key contains KEY
//	store lose-part N             loses part N of each upload, after confirming it
//	store serve                   serves everything again
//	store lose TABLE              removes the objects of a table
//	store drop|flip KEY           removes or damages the objects whose key begins with KEY
//	store put KEY                 adds an object of somebody else
//	store has KEY                 fails if no object has a key that begins with KEY
//	store count N                 fails unless there are N objects, and no unfinished uploads
func bucketStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: store start|refuse|cut|lose-part|serve|lose|drop|flip|put|has|count")
	}
	if args[0] == "start" {
		made := buckettest.New("outliers")
		if len(args) > 1 {
			made = buckettest.NewAzure("outliers")
		}
		server := httptest.NewServer(made)
		ts.Defer(server.Close)
		stores.Store(ts.Getenv("WORK"), made)
		for _, variable := range StoreVariables(server.URL) {
			name, value, _ := strings.Cut(variable, "=")
			ts.Setenv(name, value)
		}
		return
	}
	do, ok := storeCommands[fmt.Sprintf("%s %d", args[0], len(args)-1)]
	if !ok {
		ts.Fatalf("store %s", strings.Join(args, " "))
	}
	found, _ := stores.Load(ts.Getenv("WORK"))
	ts.Check(do(found.(*buckettest.Server), args[1:]))
}

// refuse lets a store refuse the requests with a method for keys that contain a text; "" matches any.
func refuse(s *buckettest.Server, code, method, key string) error {
	status := http.StatusForbidden
	if code == "SlowDown" || code == "ServerBusy" {
		status = http.StatusServiceUnavailable
	}
	s.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if method != "" && r.Method != method || !strings.Contains(r.URL.Path, key) {
			return false
		}
		buckettest.Refuse(w, status, code)
		return true
	})
	return nil
}

// cutObject answers with the beginning of an object, and then closes the connection.
func cutObject(w http.ResponseWriter, s *buckettest.Server, r *http.Request) bool {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	content := s.Objects()[key]
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Header().Set("Last-Modified", "Mon, 02 Nov 2026 00:00:00 GMT")
	w.Header().Set("Etag", `"cut"`)
	_, _ = w.Write(content[:len(content)/2])
	return true
}

// eachObject calls do for the objects whose key begins with a text. There must be at least one.
func eachObject(s *buckettest.Server, begins string, do func(key string, content []byte)) error {
	err := fmt.Errorf("no object has a key that begins with %s", begins)
	for key, content := range s.Objects() {
		if strings.HasPrefix(key, begins) {
			err = nil
			do(key, content)
		}
	}
	return err
}
