package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// # Logins
//
// A browser without a login may view pages where the daemon allows that, and cannot change anything. To
// log in, a user runs `outlierd open`, which requests a ticket over a socket that only the daemon's
// user can open, or types daemon.token. The browser exchanges either for a session, which it stores in
// a cookie that scripts and other sites cannot use. The daemon keeps only hashes, in memory: a restart
// ends all sessions.

const (
	ticketLife  = time.Minute
	sessionLife = 12 * time.Hour
	mostKnown   = 100 // maximum number of tickets, and of sessions

	guessEvery = 12 * time.Second // interval of further attempts, after the first few
	guesses    = 5
)

// logins holds the tickets and sessions of a site.
type logins struct {
	token string        // daemon.token; empty if there is none
	tries *rate.Limiter // limits attempts with tokens and invalid tickets

	mu                sync.Mutex
	tickets, sessions secrets
}

// secrets maps the hashes of secrets to their expiry.
type secrets map[[sha256.Size]byte]time.Time

func newLogins(token string) *logins {
	return &logins{token: token, tries: rate.NewLimiter(rate.Every(guessEvery), guesses), tickets: secrets{},
		sessions: secrets{}}
}

// addSecret creates a secret with a lifetime. If there are too many, the one that expires first is removed.
func (s secrets) addSecret(life time.Duration) string {
	secret, now := rand.Text(), time.Now()
	var first [sha256.Size]byte
	for hash, end := range s {
		if end.Before(now) {
			delete(s, hash)
		} else if s[first].IsZero() || end.Before(s[first]) {
			first = hash
		}
	}
	if len(s) >= mostKnown {
		delete(s, first)
	}
	s[sha256.Sum256([]byte(secret))] = now.Add(life)
	return secret
}

func (s secrets) hasSecret(secret string) bool {
	return time.Now().Before(s[sha256.Sum256([]byte(secret))])
}

func (s secrets) removeSecret(secret string) { delete(s, sha256.Sum256([]byte(secret))) }

// cookieName returns the name of the session's cookie. It has the port, because browsers send cookies to all
// ports of a host: two daemons on one host would log each other's browsers out.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil { // the default port, or a host that was made up
		return "outlierd"
	}
	return "outlierd-" + port
}

// beginSession starts a session for the browser.
func (l *logins) beginSession(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	secret := l.sessions.addSecret(sessionLife)
	l.mu.Unlock()
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: secret, Path: "/", MaxAge: int(sessionLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
}

// sessionOf returns the secret of the request's session, or "".
func (l *logins) sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sessions.hasSecret(cookie.Value) {
		return ""
	}
	return cookie.Value
}

// formMark returns the value that the forms of a session contain, which protects against forgery by other
// sites.
func formMark(session string) string {
	sum := hmac.New(sha256.New, []byte(session))
	sum.Write([]byte("form"))
	return hex.EncodeToString(sum.Sum(nil))
}

// validForm reports whether the request comes from a form of this session. It also checks the origin that
// the browser reports.
func validForm(r *http.Request, session string) bool {
	return http.NewCrossOriginProtection().Check(r) == nil &&
		subtle.ConstantTimeCompare([]byte(r.PostFormValue("form")), []byte(formMark(session))) == 1
}

// Ticket returns the path of a login URL, which is valid once and for one minute.
func (s *Site) Ticket() (path string) {
	s.logins.mu.Lock()
	defer s.logins.mu.Unlock()
	return "/login?ticket=" + s.logins.tickets.addSecret(ticketLife)
}

// Knows reports whether the request comes from a logged-in browser.
func (s *Site) Knows(r *http.Request) bool { return s != nil && s.logins.sessionOf(r) != "" }

// loginView is the data of the login page.
type loginView struct {
	Known  bool   // the browser is logged in
	New    bool   // with this request
	Token  bool   // the form accepts a token
	To     string // the requested page
	Form   string // of the session
	Wrong  string // what was wrong with the last attempt
	Acting bool   // a login is needed for changes, but not for viewing
}

// Login shows the login page instead of the requested page.
func (s *Site) Login(w http.ResponseWriter, r *http.Request) {
	s.guardHandler(func(w http.ResponseWriter, r *http.Request) {
		s.logIn(w, r, http.StatusUnauthorized, loginView{Token: s.logins.token != "", To: requestedPage(r)})
	})(w, r)
}

// logIn shows the login page.
func (s *Site) logIn(w http.ResponseWriter, r *http.Request, status int, v loginView) {
	s.writeView(w, r, status, view{"login.html", "Log in", "", v})
}

// requestedPage returns the page that was requested.
func requestedPage(r *http.Request) string {
	if r.Method != http.MethodGet {
		return "/"
	}
	return r.URL.RequestURI()
}

// serveLogin shows the login form, or accepts a ticket. It answers a ticket with a page, not with a
// redirect: a browser that was started by another program would not send the new cookie with the
// redirect.
func (s *Site) serveLogin(w http.ResponseWriter, r *http.Request) {
	v := loginView{Token: s.logins.token != "", To: "/"}
	if ticket := r.URL.Query().Get("ticket"); ticket != "" {
		s.logins.mu.Lock()
		v.New = s.logins.tickets.hasSecret(ticket)
		s.logins.tickets.removeSecret(ticket)
		s.logins.mu.Unlock()
		switch {
		case v.New:
			s.logins.beginSession(w, r)
			w.Header().Set("Refresh", "0;url=/")
			s.logIn(w, r, http.StatusOK, v)
		case !s.logins.tries.Allow():
			s.tooMany(w, r)
		default:
			v.Wrong = "This login URL was already used or has expired."
			s.logIn(w, r, http.StatusForbidden, v)
		}
		return
	}
	if session := s.logins.sessionOf(r); session != "" {
		v.Known, v.Form = true, formMark(session)
	}
	s.logIn(w, r, http.StatusOK, v)
}

// serveEnter accepts the token.
func (s *Site) serveEnter(w http.ResponseWriter, r *http.Request) {
	switch {
	case http.NewCrossOriginProtection().Check(r) != nil:
		s.serveSentence(w, r, http.StatusForbidden, "This form was sent by another site.")
	case !s.logins.tries.Allow():
		s.tooMany(w, r)
	case !s.logins.isToken(r.PostFormValue("token")):
		s.logIn(w, r, http.StatusForbidden, loginView{
			Token: s.logins.token != "", To: ofThisSite(r.PostFormValue("to")), Wrong: "The token is wrong.",
		})
	default:
		s.logins.beginSession(w, r)
		http.Redirect(w, r, ofThisSite(r.PostFormValue("to")), http.StatusSeeOther)
	}
}

// isToken compares in constant time.
func (l *logins) isToken(text string) bool {
	want, got := sha256.Sum256([]byte(l.token)), sha256.Sum256([]byte(text))
	return l.token != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

func (s *Site) tooMany(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "12")
	s.serveSentence(w, r, http.StatusTooManyRequests, "Too many login attempts; wait a minute.")
}

// ofThisSite returns a path of this site. It never leads to another site.
func ofThisSite(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\t\r\n") {
		return "/"
	}
	return path
}

// serveLeave ends a session.
func (s *Site) serveLeave(w http.ResponseWriter, r *http.Request) {
	session := s.logins.sessionOf(r)
	if session == "" || !validForm(r, session) {
		s.serveSentence(w, r, http.StatusForbidden, "The form does not belong to your login. Reload the page and try again.")
		return
	}
	s.logins.mu.Lock()
	s.logins.sessions.removeSecret(session)
	s.logins.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/", MaxAge: -1, HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
