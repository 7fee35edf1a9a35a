package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"outlierd/sync/serve"
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

// addSecret creates a secret with a lifetime, and removes those that have expired.
func (s secrets) addSecret(life time.Duration) string {
	secret, now := rand.Text(), time.Now()
	maps.DeleteFunc(s, func(_ [sha256.Size]byte, end time.Time) bool { return end.Before(now) })
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

// endSession ends the session of the browser.
func (l *logins) endSession(w http.ResponseWriter, r *http.Request) {
	session := l.sessionOf(r)
	l.mu.Lock()
	l.sessions.removeSecret(session)
	l.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/", MaxAge: -1, HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
}

// useTicket reports whether a ticket is valid, and ends it.
func (l *logins) useTicket(ticket string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.tickets.removeSecret(ticket)
	return l.tickets.hasSecret(ticket)
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

// errNoLogin is answered with the login page.
var errNoLogin = errors.New("this needs a login")

// checkForm returns an error unless the request comes from a form of the browser's session; undone says what was not
// done then. It also checks the origin that the browser reports.
func (l *logins) checkForm(r *http.Request, undone string) error {
	session := l.sessionOf(r)
	switch {
	case session == "":
		return errNoLogin
	case http.NewCrossOriginProtection().Check(r) != nil,
		subtle.ConstantTimeCompare([]byte(r.PostFormValue("form")), []byte(formMark(session))) != 1:
		return serve.Refuse(http.StatusForbidden, "%s: the form does not belong to your login. Reload the page and try again.", undone)
	}
	return nil
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
	New    bool   // the browser was logged in by this request
	Token  bool   // the form accepts a token
	To     string // the requested page
	Wrong  string // what was wrong with the last attempt
	Acting bool   // a login is needed for changes, but not for viewing
}

// Login shows the login page instead of the requested page.
func (s *Site) Login(w http.ResponseWriter, r *http.Request) {
	s.render.guardHandler(func(w http.ResponseWriter, r *http.Request) error {
		s.render.write(w, r, http.StatusUnauthorized, s.logins.page(loginView{To: requestedPage(r)}))
		return nil
	})(w, r)
}

// page returns the login page.
func (l *logins) page(v loginView) view {
	v.Token = l.token != ""
	return view{"login.html", "Log in", "", v}
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
func (s *Site) serveLogin(w http.ResponseWriter, r *http.Request) error {
	v, status := loginView{To: "/"}, http.StatusOK
	switch ticket := r.URL.Query().Get("ticket"); {
	case ticket == "":
	case s.logins.useTicket(ticket):
		v.New = true
		s.logins.beginSession(w, r)
		w.Header().Set("Refresh", "0;url=/")
	case !s.logins.tries.Allow():
		return errTooMany
	default:
		v.Wrong, status = "This login URL was already used or has expired.", http.StatusForbidden
	}
	s.render.write(w, r, status, s.logins.page(v))
	return nil
}

// serveEnter accepts the token.
func (s *Site) serveEnter(w http.ResponseWriter, r *http.Request) error {
	to := ofThisSite(r.PostFormValue("to"))
	switch {
	case http.NewCrossOriginProtection().Check(r) != nil:
		return serve.Refuse(http.StatusForbidden, "This form was sent by another site.")
	case !s.logins.tries.Allow():
		return errTooMany
	case !serve.IsToken(s.logins.token, r.PostFormValue("token")):
		s.render.write(w, r, http.StatusForbidden, s.logins.page(loginView{To: to, Wrong: "The token is wrong."}))
	default:
		s.logins.beginSession(w, r)
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
	return nil
}

var errTooMany = serve.Refuse(http.StatusTooManyRequests, "Too many login attempts; wait a minute.")

// ofThisSite returns a path of this site. It never leads to another site.
func ofThisSite(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\t\r\n") {
		return "/"
	}
	return path
}

// serveLeave ends a session.
func (s *Site) serveLeave(w http.ResponseWriter, r *http.Request) error {
	if err := s.logins.checkForm(r, "You are still logged in"); err != nil {
		return err
	}
	s.logins.endSession(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
	return nil
}
