package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"outlierd/sync/serve"
)

// The verbs of an [Action].
const (
	RunJob    = "run"
	CancelRun = "cancel"
	PauseJob  = "pause"
	ResumeJob = "resume"
	Lift      = "lift" // lift the blocks of calls

	LookAlikes = "look-alikes" // of a video, By its thumbnail, title or topic
	SearchOnce = "search"
	Transcript = "transcript"
	BuyRest    = "rest"   // what the searches of a run left
	Record     = "record" // credits that were spent or bought elsewhere
)

// Action is something that a user asks the daemon to do.
type Action struct {
	Verb    string
	Job     string
	Run     string // id
	Until   string // when a pause ends; "" for no end
	Why     string // reason of a pause
	Video   string // id
	By      string // of look-alikes: thumbnail_video_id, title or video_id
	Title   string // of the video, for look-alikes by title
	Query   string // of a search
	Credits int64  // spent elsewhere, or bought if negative
	Seen    string // [Offer.Seen] of the confirmed offer
}

// Offer describes an action before it is confirmed.
type Offer struct {
	Title  string
	Says   []string // what will happen and its maximum cost, in sentences
	Button string
	Seen   string // identifies what the sentences depend on; if that changes, the action is refused

	Do func(context.Context) (next string, err error) // carries it out; next is the path of the page that shows its result
}

// acting is the time limit of an action, which may have to wait for a call in progress.
const acting = 25 * time.Second

// actionOf reads an action from a form.
func actionOf(verb string, form url.Values) (a Action, err error) {
	if err := checkTexts(form); err != nil {
		return a, err
	}
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	a = Action{Verb: verb, Job: text("job"), Run: text("run"), Until: text("until"),
		Why: text("why"), Video: text("video"), By: text("by"), Title: text("title"), Query: text("query"),
		Seen: text("seen")}
	if credits := text("credits"); credits != "" {
		if a.Credits, err = strconv.ParseInt(credits, 10, 64); err != nil {
			return a, errors.New("the number of credits must be a whole number")
		}
	}
	return a, nil
}

// offerView is the data of the page that offers an action.
type offerView struct {
	*Offer
	Action
}

// Back is the page on which the action was chosen.
func (v offerView) Back() string {
	if v.Video != "" {
		return "/videos/" + url.PathEscape(v.Video)
	}
	return ""
}

// serveOffer shows what an action will do, with a button to confirm it.
func (s *Site) serveOffer(w http.ResponseWriter, r *http.Request) error {
	a, err := actionOf(r.PathValue("verb"), r.URL.Query())
	switch {
	case err != nil:
		return badRequest("%w", err)
	case !s.Knows(r):
		return errNoLogin
	}
	ctx, cancel := context.WithTimeout(r.Context(), answering)
	defer cancel()
	offer, err := s.from.Offer(ctx, a)
	if err != nil {
		return explainAction(r, a, err)
	}
	return s.render.show(w, r, view{"do.html", offer.Title, "", offerView{offer, a}})
}

// serveAction performs an action that the user has confirmed.
func (s *Site) serveAction(w http.ResponseWriter, r *http.Request) error {
	if err := s.logins.checkForm(r, "Nothing was done"); err != nil {
		return err
	}
	a, err := actionOf(r.PathValue("verb"), r.PostForm)
	if err != nil {
		return badRequest("%w", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), acting)
	defer cancel()
	next := ""
	offer, err := s.from.Offer(ctx, a)
	switch {
	case err == nil && offer.Seen != a.Seen:
		err = serve.Refuse(http.StatusConflict, "the job has changed since its price was shown; look at it again.")
	case err == nil:
		next, err = offer.Do(ctx)
		s.status.expire()
	}
	if err != nil {
		return explainAction(r, a, err)
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
	return nil
}

// explainAction explains why an action was not offered or not performed.
func explainAction(r *http.Request, a Action, err error) error {
	_, refused := errors.AsType[*serve.RefusedError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
		return serve.Refuse(http.StatusServiceUnavailable, "outlierd up is busy with a call. "+
			"Check the page Now before you try again: the action may still be carried out.")
	case refused, r.Method == http.MethodGet, errors.Is(err, ErrUnknown), errors.Is(err, context.Canceled): // nothing was done
		return err
	}
	return errors.Join(fmt.Errorf("%s %s: %w", a.Verb, a.Job, err), serve.Refuse(http.StatusInternalServerError,
		"The action failed, and may have been carried out in part; the log of outlierd up has the reason."))
}
