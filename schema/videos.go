package schema

import (
	"slices"

	"outlierd/outlier"
)

// video is one item of video details (interface, Video details).
var video = []Column{
	{Name: "video_id", Type: varchar, Path: "id", Comment: "the video's id, 11 characters"},
	{Name: "kind", Type: varchar, Path: "kind", Comment: "what the service calls it, such as video"},
	{Name: "category_id", Type: varchar, Path: "snippet.categoryId",
		Comment: "the platform's number of the category"},
	{Name: "channel_id", Type: varchar, Path: "snippet.channelId",
		Comment: "the channel's id, 24 characters"},
	{Name: "channel_title", Type: varchar, Path: "snippet.channelTitle", Comment: "name of the channel"},
	{Name: "default_audio_language", Type: varchar, Path: "snippet.defaultAudioLanguage",
		Comment: "language that is spoken, as the uploader says"},
	{Name: "default_language", Type: varchar, Path: "snippet.defaultLanguage",
		Comment: "language of title and description, as the uploader says"},
	{Name: "description", Type: varchar, Path: "snippet.description", Comment: "the video's description"},
	{Name: "is_live_broadcast", Type: boolean, Path: "snippet.isLiveBroadcast",
		Comment: "whether it is, or was, a live broadcast"},
	{Name: "published_at", Type: timestamp, Path: "snippet.publishedAt",
		Comment: "when the video was published, UTC"},
	{Name: "thumbnails", Type: thumbnails, Path: "snippet.thumbnails",
		Comment: "images by size; width and height in pixels"},
	{Name: "title", Type: varchar, Path: "snippet.title", Comment: "title of the video"},
	{Name: "duration", Type: bigint, Path: "snippet.duration", Comment: "length in seconds"},
	{Name: "comment_count", Type: bigint, Path: "statistics.commentCount", Comment: "comments so far"},
	{Name: "like_count", Type: bigint, Path: "statistics.likeCount", Comment: "likes so far"},
	{Name: "view_count", Type: bigint, Path: "statistics.viewCount", Comment: "views so far"},
	serviceTime,
	extra,
	fieldsMissing,
}

// VideosHistory holds every observation of a video's details.
var VideosHistory = define(Table{
	Name: "videos_history", Kind: History, Key: []string{"video_id"},
	Comment: "Every observation of a video's details.",
	Rows:    []Place{{outlier.OpDetails, "items[]"}},
	Columns: video,
}, lineage)

// Videos holds each video's details as last seen.
var Videos = VideosHistory.defineCurrent("videos", "view_count", video, "Each video's details as they were last seen.")

// Comments holds the latest sample of each video's comments (interface, Video comments).
var Comments = define(Table{
	Name: "comments", Kind: Children, Key: []string{"video_id", "comment_key"},
	Comment: "The comments in the latest answer for each video, at most 100.",
	Rows:    []Place{{outlier.OpComments, "items[].comments[]"}},
	Columns: []Column{
		{Name: "video_id", Type: varchar, Path: "../id", Comment: "the video's id, 11 characters"},
		{
			Name: "comment_key", Type: varchar,
			Comment: "hash of author, text and occurrence in the answer; the service gives no id",
			of:      []string{"author_channel_id", "author_text", "text"}, computed: computeCommentKey,
		},
		{Name: "author_channel_id", Type: varchar, Path: "authorChannelId",
			Comment: "channel of the author, 24 characters"},
		{Name: "author_text", Type: varchar, Path: "authorText", Comment: "name of the author"},
		{Name: "author_thumbnails", Type: images, Path: "authorThumbnail",
			Comment: "images of the author; width and height in pixels"},
		{Name: "author_is_channel_owner", Type: boolean, Path: "authorIsChannelOwner",
			Comment: "whether the author owns the channel of the video"},
		{Name: "text", Type: varchar, Path: "text", Comment: "what the comment says"},
		{Name: "published_at", Type: timestamp, Path: "publishedAt",
			Comment: "when it was written, UTC; a text that is not a time is in extra"},
		{Name: "published_at_raw", Type: varchar, Path: "publishedAtRaw",
			Comment: "when it was written, as shown on the platform"},
		{Name: "likes_count", Type: bigint, Path: "likesCount", Comment: "likes so far"},
		{Name: "likes_count_raw", Type: varchar, Path: "likesCountRaw",
			Comment: "likes as shown on the platform; text or number in the JSON"},
		{Name: "reply_count", Type: bigint, Path: "replyCount", Comment: "replies so far"},
		{Name: "reply_count_raw", Type: varchar, Path: "replyCountRaw",
			Comment: "replies as shown on the platform; text or number in the JSON"},
		{Name: "position", Type: bigint, Comment: "place in the answer, from 0", computed: computePosition},
		extra,
		fieldsMissing,
	},
}, narrow)

// CommentsHistory holds every observation of a comment, in the columns that change or identify it.
// The table comments no longer has a comment that vanished.
var CommentsHistory = define(Table{
	Name: "comments_history", Kind: History, Key: []string{"video_id", "comment_key"},
	Comment: "Every observation of a comment. comment_counts_history has the time of each answer, by _response_id. " +
		"An answer has at most 100 comments, so a comment that it lacks may still exist: see the view comments_seen.",
	Of: Comments,
	Columns: some(Comments.Columns, "video_id", "comment_key", "author_channel_id", "author_text", "text",
		"published_at", "likes_count", "reply_count", "position"),
}, narrow)

// some returns the columns with these names.
func some(of []Column, names ...string) []Column {
	return slices.DeleteFunc(slices.Clone(of), func(c Column) bool { return !slices.Contains(names, c.Name) })
}

var commentCounts = []Column{
	{Name: "video_id", Type: varchar, Path: "id", Comment: "the video's id, 11 characters"},
	{Name: "count", Type: bigint, Path: "statistics.count",
		Comment: "comments of the video in total, not only those in the answer"},
	{Name: "sampled", Type: bigint, computed: computeChildren,
		Comment: "comments in the answer; NULL if the answer has no list of them"},
	serviceTime,
	extra,
	fieldsMissing,
}

// CommentCountsHistory holds every observation of how many comments a video has.
var CommentCountsHistory = define(Table{
	Name: "comment_counts_history", Kind: History, Key: []string{"video_id"},
	Comment: "Every observation of how many comments a video has.",
	Rows:    []Place{{outlier.OpComments, "items[]"}},
	Columns: commentCounts,
}, lineage)

// CommentCounts holds the latest number of comments of each video.
var CommentCounts = CommentCountsHistory.defineCurrent("comment_counts", "", commentCounts, "The latest number of comments of each video.")

// Transcripts holds each video's full text (interface, Video transcript).
var Transcripts = define(Table{
	Name: "transcripts", Kind: Once, Key: []string{"video_id"},
	Comment: "Each video's transcript, fetched once.",
	Rows:    []Place{{outlier.OpTranscript, "items[]"}},
	Columns: []Column{
		{Name: "video_id", Type: varchar, Path: "id", Comment: "the video's id, 11 characters"},
		{Name: "transcript", Type: varchar, Path: "transcript", Comment: "the full text"},
		{Name: "event_count", Type: bigint, computed: computeChildren,
			Comment: "rows in transcript_events; NULL if the answer has no list of them"},
		extra,
		fieldsMissing,
	},
}, lineage)

// TranscriptEvents holds the timed lines of each transcript. It has the most rows by far.
var TranscriptEvents = define(Table{
	Name: "transcript_events", Kind: Once, Key: []string{"video_id", "position"},
	Comment: "The timed lines of each transcript.",
	Rows:    []Place{{outlier.OpTranscript, "items[].events[]"}},
	Columns: []Column{
		{Name: "video_id", Type: varchar, Path: "../id", Comment: "the video's id, 11 characters"},
		{Name: "position", Type: bigint, Comment: "place in the transcript, from 0", computed: computePosition},
		{Name: "start_ms", Type: bigint, Path: "startMs",
			Comment: "when the line begins, ms from the start of the video"},
		{Name: "duration_ms", Type: bigint, Path: "durationMs", Comment: "how long it is shown, ms"},
		{Name: "end_ms", Type: bigint, Path: "endMs",
			Comment: "when the line ends, ms from the start of the video"},
		{Name: "text", Type: varchar, Path: "text", Comment: "what is said"},
	},
}, narrow)

// Missing holds the entities that the service does not have.
var Missing = define(Table{
	Name: "missing", Kind: Current, Key: []string{"endpoint", "id"},
	Comment: "What the service does not have, such as a deleted video or a missing transcript, " +
		"and requests that it refuses. A row is deleted when the service returns the data later.",
	Columns: []Column{
		{Name: "endpoint", Type: varchar, Comment: "the operation that was called"},
		{Name: "id", Type: varchar, Comment: "the id that was requested"},
		{Name: "status", Type: bigint, Comment: "HTTP status of the answer"},
		{Name: "reason", Type: varchar, Comment: "the answer in words"},
		{Name: "checked_at", Type: timestamp, Comment: "when it was last requested, UTC"},
		{Name: "retry_at", Type: timestamp,
			Comment: "when it will be requested again, UTC; NULL if never"},
	},
}, lineage)
