package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/schema"
)

// answersInSQL has a query for each endpoint that rebuilds its answers: the number of the answer, from 0, and its
// JSON. The queries are written by hand from the documented interface and from docs/tables.md, independently of
// package schema, so that a column that is filled from the wrong field is not rebuilt into the same field.
var answersInSQL = map[outlier.Operation]string{
	outlier.OpSearch:              hitsInSQL,
	outlier.OpRelated:             hitsInSQL,
	outlier.OpFindChannels:        foundChannelsInSQL,
	outlier.OpFindRelatedChannels: foundChannelsInSQL,
	outlier.OpChannelVideos: strings.NewReplacer("%uploads%", `'videos': array(select {
			'id': video_id, 'title': title, 'duration': duration, 'isLiveBroadcast': is_live_broadcast::json,
			'thumbnails': map_from_entries([{'k': t.name, 'v': {'url': t.url, 'width': t.width, 'height': t.height}} for t in thumbnails]),
			'publishedAtEstimate': published_at_estimate, 'viewCount': view_count, `+scoresInSQL,
		"%raw%", "videos_count_raw").Replace(channelInSQL),
	outlier.OpChannelShorts: strings.NewReplacer("%uploads%", `'shorts': array(select {
			'id': video_id, 'title': title, 'viewCount': view_count,
			'thumbnails': [{'url': t.url, 'width': t.width, 'height': t.height} for t in thumbnails], `+scoresInSQL,
		"%raw%", "videos_count_raw::bigint").Replace(channelInSQL),
	outlier.OpDetails: `select nth, to_json({'ids': [video_id], 'time': service_time, 'items': [{
			'id': video_id, 'kind': kind,
			'snippet': {'categoryId': category_id, 'channelId': channel_id, 'channelTitle': channel_title,
				'defaultAudioLanguage': default_audio_language, 'defaultLanguage': default_language, 'description': description,
				'isLiveBroadcast': is_live_broadcast, 'publishedAt': published_at, 'thumbnails': thumbnails, 'title': title, 'duration': duration},
			'statistics': {'commentCount': comment_count, 'likeCount': like_count, 'viewCount': view_count}}]})
		from asked join videos_history on _response_id = response_id`,
	outlier.OpComments: `select nth, to_json({'ids': [video_id], 'time': service_time, 'items': [{
			'id': video_id, 'statistics': {'count': "count"},
			'comments': array(select {'authorChannelId': author_channel_id, 'authorText': author_text, 'authorThumbnail': author_thumbnails,
				'authorIsChannelOwner': author_is_channel_owner, 'text': "text", 'publishedAt': published_at, 'publishedAtRaw': published_at_raw,
				'likesCount': likes_count, 'likesCountRaw': likes_count_raw::bigint, 'replyCount': reply_count, 'replyCountRaw': reply_count_raw::bigint}
				from comments where _response_id = response_id and comments.video_id = n.video_id order by position)}]})
		from asked join comment_counts_history n on _response_id = response_id`,
	outlier.OpTranscript: `select nth, to_json({'ids': [video_id], 'items': [{
			'id': video_id, 'transcript': transcript,
			'events': array(select {'startMs': start_ms, 'durationMs': duration_ms, 'endMs': end_ms, 'text': "text"}
				from transcript_events e where e._response_id = response_id and e.video_id = t.video_id order by position)}]})
		from asked join transcripts t on _response_id = response_id`,
	outlier.OpStartScan: scanInSQL,
	outlier.OpScan:      scanInSQL,
	// The simulator answers with an array that is not within an object, as the first row says.
	outlier.OpTrendingFormats: `select nth, to_json(array(select value::json from trending_formats
			where _response_id = response_id order by position))
		from asked where exists (from trending_formats
			where _response_id = response_id and position = 0 and extra::varchar = '[]')`,
}

const (
	pageInSQL = `'pagination': {'total': page_total, 'from': page_from, 'size': page_size}`

	hitsInSQL = `select nth, to_json({` + pageInSQL + `, 'hits': array(select {
			'id': video_id, 'kind': kind, 'time': service_time,
			'snippet': {'channelId': channel_id, 'channelTitle': channel_title, 'channelHandle': channel_handle,
				'channelSubscribers': channel_subscribers, 'title': title, 'publishedAt': published_at, 'language': "language",
				'thumbnails': thumbnails, 'duration': duration,
				'monetization': {'rpmEstimationFrom': rpm_estimation_from, 'rpmEstimationTo': rpm_estimation_to,
					'revenueEstimationFrom': revenue_estimation_from, 'revenueEstimationTo': revenue_estimation_to},
				'channelMonetization': {'revenueMonthlyEstimationFrom': channel_revenue_monthly_estimation_from,
					'revenueMonthlyEstimationTo': channel_revenue_monthly_estimation_to,
					'rpmEstimationFrom': channel_rpm_estimation_from, 'rpmEstimationTo': channel_rpm_estimation_to, 'adsense': channel_adsense}},
			'statistics': {'commentCount': comment_count, 'likeCount': like_count, 'viewCount': view_count, 'zScore': z_score,
				'averageViewsRatio': average_views_ratio, 'isPositiveOutlier': is_positive_outlier, 'isNegativeOutlier': is_negative_outlier},
			'classification': {'isFaceless': is_faceless, 'quality': quality}}
			from outliers_history where _response_id = response_id order by rank)})
		from asked`

	foundChannelsInSQL = `select nth, to_json({` + pageInSQL + `, 'hits': array(select {
			'id': channel_id, 'snippet': {'handle': handle, 'title': title, 'contentKind': content_kind},
			'statistics': {'subscribers': subscribers, 'averageViews': average_views, 'avgViewsToSubscribersRatio': avg_views_to_subscribers_ratio},
			'language': {'code': "language"}, 'monetization': {'adsense': adsense},
			'classification': {'quality': quality, 'isFaceless': is_faceless}}
			from found_channels_history where _response_id = response_id order by rank)})
		from asked`

	// channels_history has a row for each change: the last row before an answer has its values.
	channelInSQL = `select nth, to_json({'id': s.channel_id, 'time': s.service_time, 'item': {
			'id': c.channel_id, 'kind': c.kind,
			'snippet': {'handle': c.handle, 'title': c.title, 'description': c.description, 'keywords': c.keywords, 'thumbnails': c.thumbnails},
			%uploads%,
			'statistics': {'subscriberCount': subscriber_count, 'subscriberCountRaw': subscriber_count_raw,
				'viewCountEstimate': view_count_estimate, 'viewCountMonthlyEstimate': view_count_monthly_estimate,
				'videosCount': videos_count, 'videosSampleCount': videos_sample_count, 'videosCountRaw': %raw%,
				'averageViewsEstimate': average_views_estimate, 'medianViewsEstimate': median_views_estimate,
				'averageVideoDurationEstimate': average_video_duration_estimate,
				'standardDeviationViewsEstimate': standard_deviation_views_estimate, 'viewVariationCoefficient': view_variation_coefficient,
				'avgViewsToSubscribersRatio': avg_views_to_subscribers_ratio,
				'lastPublishedAtEstimate': last_published_at_estimate, 'oldestParsedPublishedAtEstimate': oldest_parsed_published_at_estimate,
				'positiveOutliersCount': positive_outliers_count, 'negativeOutliersCount': negative_outliers_count}}})
		from asked join channel_statistics_history s on s._response_id = response_id
			asof join channels_history c on c.channel_id = s.channel_id and response_id >= c._response_id`

	scoresInSQL = `'statistics': {'zScore': z_score, 'averageViewsRatio': average_views_ratio,
				'isPositiveOutlier': is_positive_outlier, 'isNegativeOutlier': is_negative_outlier}}
			from channel_uploads_history u where u._response_id = response_id order by position)`

	// A threshold with only one known limit was a plain number.
	scanInSQL = `select nth, to_json({'id': scan_id, 'name': name, 'status': status,
			'input': {'query': queries, 'threshold': case when threshold_channels is null or threshold_outlier_videos is null
				then to_json(coalesce(threshold_channels, threshold_outlier_videos))
				else to_json({'channels': threshold_channels, 'outlierVideos': threshold_outlier_videos}) end},
			'endedAt': ended_at, 'createdAt': created_at, 'updatedAt': updated_at})
		from asked join scans on _response_id = response_id`
)

// endpoints maps prefixes of paths to operations. The first match applies.
var endpoints = []struct {
	path string
	op   outlier.Operation
}{
	{"/search/outliers/related", outlier.OpRelated}, {"/search/outliers", outlier.OpSearch},
	{"/search/channels/related", outlier.OpFindRelatedChannels}, {"/search/channels", outlier.OpFindChannels},
	{"/search/trending-formats", outlier.OpTrendingFormats},
	{"/channel/videos/", outlier.OpChannelVideos}, {"/channel/shorts/", outlier.OpChannelShorts},
	{"/video/comments/", outlier.OpComments}, {"/video/transcript/", outlier.OpTranscript}, {"/video/", outlier.OpDetails},
	{"/scan/", outlier.OpScan}, {"/scan", outlier.OpStartScan},
}

// tape is a service that keeps every answer that it sent.
type tape struct {
	service http.Handler

	mu      sync.Mutex
	sent    map[outlier.Operation][]reply // in the order in which they were sent
	started func()                        // called when a scan was started; may be nil
}

// reply is an answer, and the id that it is about. body is nil if the service does not have it.
type reply struct {
	entity string
	body   any
}

func (s *tape) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	s.service.ServeHTTP(answer, r)
	s.keep(r, answer)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // it fails if the client has closed the connection
}

func (s *tape) keep(r *http.Request, answer *httptest.ResponseRecorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range endpoints {
		id, ok := strings.CutPrefix(r.URL.Path, e.path)
		if !ok {
			continue
		}
		if id == "-----------" { // a request for the service's time, which is not stored
			return
		}
		sent := reply{entity: id}
		if answer.Code == http.StatusOK {
			sent.body = plainBody(answer)
		}
		s.sent[e.op] = append(s.sent[e.op], sent)
		if e.op == outlier.OpStartScan && s.started != nil {
			s.started()
		}
		return
	}
}

// plainBody returns the JSON of an answer after decompressing it; nil if it is not JSON, which no rebuilt
// answer equals.
func plainBody(answer *httptest.ResponseRecorder) (body any) {
	var text io.Reader = bytes.NewReader(answer.Body.Bytes())
	if answer.Header().Get("Content-Encoding") == "gzip" {
		plain, err := gzip.NewReader(text)
		if err != nil {
			return nil
		}
		text = plain
	}
	if json.NewDecoder(text).Decode(&body) != nil {
		return nil
	}
	return body
}

// lastScan returns the record of the scan that was started last.
func (s *tape) lastScan() object {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.sent[outlier.OpStartScan]
	return all[len(all)-1].body.(object)
}

// buyEverything makes calls to each endpoint, to most of them for several ids and pages.
func buyEverything(w *testWorld, service *tape) {
	// A scan in standard mode ends at once, and is read.
	w.mustRun("scan", "start", "latte art", "--mode", "standard", "--pages", "1", "--yes")
	// The others run for hours: the last answer about one of them is a poll, about the others the start.
	startScan(w, service, "grinder")
	read, out := w.command(w.Context(), "scan", "read", service.lastScan()["id"].(string))
	if err := read.Run(); read.ProcessState.ExitCode() != exitFailed {
		w.Fatalf("outlierd scan read of a scan that runs: %v: %s", err, out)
	}
	shapes := map[bool]bool{} // whether the threshold is an object
	for i := 0; i < 100 && len(shapes) < 2; i++ {
		if i%2 == 0 {
			startScan(w, service, fmt.Sprintf("UC%022d", i), "--channel")
		} else {
			startScan(w, service, fmt.Sprint("moka pot ", i))
		}
		_, object := service.lastScan()["input"].(object)["threshold"].(object)
		shapes[object] = true
	}
	w.mustRun("run", "--all") // this also publishes the answers of the interrupted commands
}

// startScan starts a scan by hand, and interrupts the command.
func startScan(w *testWorld, service *tape, args ...string) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	service.mu.Lock()
	service.started = cancel
	service.mu.Unlock()
	start, out := w.command(ctx, append([]string{"scan", "start", "--yes"}, args...)...)
	start.Cancel = func() error { return start.Process.Signal(os.Interrupt) }
	if err := start.Run(); start.ProcessState.ExitCode() != exitInterrupted {
		w.Fatalf("outlierd scan start %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

const everyEndpoint = `
version: 1
service: {url: "${OUTLIERD_URL}", key: "${OUTLIERD_KEY}", limit: 1000000/min}
budget: {per_month: 100000}
jobs:
  hits:
    search: {query: [home espresso, moka pot], sort: z_score desc, pages: 2}
    enrich:
      channel_videos: {top: 10}
      channel_shorts: {top: 10}
      details: {top: 10}
      comments: {top: 10}
      transcript: {top: 10}
  resembling: {related: {title: the best moka pot, video_id: {sql: "select video_id from outliers limit 2"}, pages: 2}}
  people: {find_channels: {query: espresso, pages: 2}}
  similar-people: {find_channels: {related_to: {sql: "select channel_id from outliers limit 2"}, pages: 2}}
  formats: {trending_formats: {niche: coffee}}
`

// TestAnswersCanBeRebuiltFromSinks compares what each endpoint sent over HTTP with what SQL rebuilds from DuckDB
// and Parquet, including the pagination in ops.requests, and the ledger with the charges. The tables do not
// distinguish null from absent, nor the formats of a time.
func TestAnswersCanBeRebuiltFromSinks(t *testing.T) {
	testenv.RacesLittle(t)
	simulated := simulator.New(simulator.Options{
		Seed: 1, Limit: 1_000_000, Scans: func(mode string) []simulator.Phase {
			if mode == outlier.ModeStandard {
				return []simulator.Phase{{Status: "Completed"}}
			}
			return []simulator.Phase{{Status: "Running", Lasts: 12 * time.Hour}, {Status: "Completed"}}
		},
	})
	service := &tape{sent: map[outlier.Operation][]reply{}, service: simulated}
	server := httptest.NewServer(service)
	defer server.Close()
	w := &testWorld{TB: t, dir: t.TempDir(), service: simulated, url: server.URL}
	w.write(everyEndpoint)
	buyEverything(w, service)
	w.booksAgree()

	for sink, table := range map[string]func(string) string{"DuckDB": func(name string) string { return name }, "Parquet": w.parquet} {
		absent := w.absent(table("missing"))
		for op := range answersInSQL {
			got, n := w.rebuilt(op, table), 0
			for i, sent := range service.lasting(op) {
				if says := absent[string(op)+" "+sent.entity]; says != sent.holdsNothing(op) {
					t.Errorf("answer %d to %s, about %s: in table missing of %s: %t", i, op, sent.entity, sink, says)
				} else if says {
					continue
				}
				n++
				if diff := cmp.Diff(withoutNulls(sent.body), withoutNulls(got[i])); diff != "" {
					t.Errorf("answer %d to %s in %s (-sent +rebuilt):\n%.3000s", i, op, sink, diff)
				}
			}
			if n == 0 || n != len(got) {
				t.Errorf("%s: %d answers were sent, %d rebuilt from %s", op, n, len(got), sink)
			}
		}
	}
}

// holdsNothing reports whether the service does not have what was requested. For transcripts it answers with 404,
// without items, or without events.
func (r reply) holdsNothing(op outlier.Operation) bool {
	if r.body == nil || op != outlier.OpTranscript {
		return r.body == nil
	}
	items := list(r.body.(object)["items"])
	return len(items) == 0 || len(list(items[0]["events"])) == 0
}

// lasting returns the answers of an operation by number, without those that the tables do not keep: they have only
// the last record of a scan.
func (s *tape) lasting(op outlier.Operation) map[int]reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := map[int]reply{}
	polled := map[any]int{} // polls by scan
	for _, r := range s.sent[outlier.OpScan] {
		polled[r.body.(object)["id"]]++
	}
	for i, r := range s.sent[op] {
		switch op {
		case outlier.OpStartScan:
			if polled[r.body.(object)["id"]] > 0 {
				continue
			}
		case outlier.OpScan:
			if polled[r.body.(object)["id"]]--; polled[r.body.(object)["id"]] > 0 {
				continue
			}
		}
		kept[i] = r
	}
	return kept
}

// absent returns what the service does not have according to table missing, as "details ID".
func (w *testWorld) absent(missing string) map[string]bool {
	w.Helper()
	all := map[string]bool{}
	w.query("select endpoint || ' ' || id from "+missing, func(values []any) { all[values[0].(string)] = true })
	return all
}

// rebuilt returns the answers of an operation by number, as rebuilt from the tables that table names.
func (w *testWorld) rebuilt(op outlier.Operation, table func(string) string) map[int]any {
	w.Helper()
	query := answersInSQL[op]
	with := fmt.Sprintf("with asked as (select *, row_number() over (order by id) - 1 as nth from %s where operation = '%s' and entity is distinct from '-----------')", table("ops.requests"), op)
	for _, t := range schema.Tables() {
		if strings.Contains(query, t.Name) && table(t.Name) != t.Name {
			with += fmt.Sprintf(", %s as (from %s)", t.Name, table(t.Name))
		}
	}
	all := map[int]any{}
	w.query("select nth::bigint, json::varchar from ("+with+" "+query+") of (nth, json)", func(values []any) {
		var body any
		if err := json.Unmarshal([]byte(values[1].(string)), &body); err != nil {
			w.Fatal(err)
		}
		all[int(values[0].(int64))] = body
	})
	return all
}

// withoutNulls returns a value without the members of objects that are null, and nil if an object has no others. It
// formats times uniformly.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case object:
		kept := object{}
		for name, inner := range v {
			if inner = withoutNulls(inner); inner != nil {
				kept[name] = inner
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case []any:
		all := []any{}
		for _, inner := range v {
			all = append(all, withoutNulls(inner))
		}
		return all
	}
	return uniform(v)
}
