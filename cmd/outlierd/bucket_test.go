package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"outlierd/sinks/bucket/buckettest"
)

// stores are those of the scripts, by their folders.
var stores sync.Map

// bucketStore is a store on loopback with the bucket outliers, which scripts start and disturb:
//
//	store start                sets the variables by which outlierd finds it
//	store refuse CODE          from now on, every request
//	store serve                again
//	store lose TABLE           the objects of a table
//	store lacks TEXT           fails if an object has a text
//	store has KEY              fails if there is no object whose key begins so
func bucketStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: store start|refuse|serve|lose|lacks|has")
	}
	if args[0] == "start" {
		made := buckettest.New("outliers")
		server := httptest.NewServer(made)
		ts.Defer(server.Close)
		stores.Store(ts.Getenv("WORK"), made)
		ts.Setenv("AWS_ENDPOINT_URL", server.URL)
		ts.Setenv("AWS_ACCESS_KEY_ID", "AKIACANARY4711")
		ts.Setenv("AWS_SECRET_ACCESS_KEY", "CANARY-4711")
		return
	}
	found, _ := stores.Load(ts.Getenv("WORK"))
	s := found.(*buckettest.Server)
	switch {
	case args[0] == "refuse" && len(args) == 2:
		s.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
			buckettest.Refuse(w, http.StatusForbidden, args[1])
			return true
		})
	case args[0] == "serve":
		s.SetFault(nil)
	case args[0] == "lose" && len(args) == 2:
		for key := range s.Objects() {
			if strings.Contains(key, "/"+args[1]+"/") {
				s.Put(key, nil)
			}
		}
	case args[0] == "lacks" && len(args) == 2:
		for key, content := range s.Objects() {
			if strings.Contains(key+string(content), args[1]) {
				ts.Fatalf("%s has %q", key, args[1])
			}
		}
	case args[0] == "has" && len(args) == 2:
		for key := range s.Objects() {
			if strings.HasPrefix(key, args[1]) {
				return
			}
		}
		ts.Fatalf("no object begins with %s", args[1])
	default:
		ts.Fatalf("store %s", strings.Join(args, " "))
	}
}
