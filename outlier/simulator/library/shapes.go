package library

// The answers, with their fields in the order of the interface. A field with a pointer may
// be null, one with omitempty may be absent.

type thumbnail struct {
	URL    string `json:"url"`
	Width  int    `json:"width,omitempty"`
	Height int    `json:"height,omitempty"`
}

type thumbnails struct {
	Default thumbnail `json:"default"`
	Medium  thumbnail `json:"medium"`
	High    thumbnail `json:"high"`
}

// Interface, Outlier hit.

// HitShape is an outlier in an answer.
type HitShape struct {
	ID             string          `json:"id"`
	Kind           string          `json:"kind"`
	Snippet        hitSnippet      `json:"snippet"`
	Statistics     hitStatistics   `json:"statistics"`
	Classification *classification `json:"classification"`
	Time           string          `json:"time"`
}

type hitSnippet struct {
	ChannelID           string               `json:"channelId"`
	ChannelTitle        string               `json:"channelTitle"`
	ChannelHandle       string               `json:"channelHandle"`
	ChannelSubscribers  int64                `json:"channelSubscribers"`
	Title               string               `json:"title"`
	PublishedAt         string               `json:"publishedAt"`
	Language            string               `json:"language"`
	Thumbnails          *thumbnails          `json:"thumbnails"`
	Duration            int64                `json:"duration"`
	Monetization        *monetization        `json:"monetization,omitempty"`
	ChannelMonetization *channelMonetization `json:"channelMonetization"`
}

type monetization struct {
	RPMFrom     float64 `json:"rpmEstimationFrom"`
	RPMTo       float64 `json:"rpmEstimationTo"`
	RevenueFrom float64 `json:"revenueEstimationFrom"`
	RevenueTo   float64 `json:"revenueEstimationTo"`
}

type channelMonetization struct {
	RevenueMonthlyFrom float64 `json:"revenueMonthlyEstimationFrom"`
	RevenueMonthlyTo   float64 `json:"revenueMonthlyEstimationTo"`
	RPMFrom            float64 `json:"rpmEstimationFrom"`
	RPMTo              float64 `json:"rpmEstimationTo"`
	Adsense            bool    `json:"adsense"`
}

type hitStatistics struct {
	CommentCount      *int64   `json:"commentCount"`
	LikeCount         *int64   `json:"likeCount"`
	ViewCount         int64    `json:"viewCount"`
	ZScore            *float64 `json:"zScore"`
	AverageViewsRatio float64  `json:"averageViewsRatio"`
	IsPositiveOutlier bool     `json:"isPositiveOutlier"`
	IsNegativeOutlier bool     `json:"isNegativeOutlier"`
}

type classification struct {
	IsFaceless *bool   `json:"isFaceless"`
	Quality    *string `json:"quality"`
}

// A hit of the channel searches, which the interface does not document.

// ChannelShape is a channel in an answer.
type ChannelShape struct {
	ID      string `json:"id"`
	Snippet struct {
		Handle      *string  `json:"handle"`
		Title       string   `json:"title"`
		ContentKind []string `json:"contentKind"`
	} `json:"snippet"`
	Statistics struct {
		Subscribers                *int64   `json:"subscribers"`
		AverageViews               *float64 `json:"averageViews"`
		AvgViewsToSubscribersRatio *float64 `json:"avgViewsToSubscribersRatio"`
	} `json:"statistics"`
	Language struct {
		Code *string `json:"code"`
	} `json:"language"`
	Monetization struct {
		Adsense *bool `json:"adsense"`
	} `json:"monetization"`
	Classification *classification `json:"classification"`
}

// Interface, Channel with videos and Channel with shorts.

// ChannelAnswer is the answer about a channel.
type ChannelAnswer struct {
	ID   string      `json:"id"`
	Time string      `json:"time"`
	Item channelItem `json:"item"`
}

// channelItem has Videos or Shorts, depending on the endpoint.
type channelItem struct {
	ID         string            `json:"id"`
	Kind       string            `json:"kind"`
	Snippet    channelSnippet    `json:"snippet"`
	Videos     *[]VideoEntry     `json:"videos,omitempty"`
	Shorts     *[]shortEntry     `json:"shorts,omitempty"`
	Statistics ChannelStatistics `json:"statistics"`
}

type channelSnippet struct {
	Handle      string     `json:"handle"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Keywords    []string   `json:"keywords"`
	Thumbnails  thumbnails `json:"thumbnails"`
}

// VideoEntry is a video of a channel.
type VideoEntry struct {
	ID                  string          `json:"id"`
	Title               string          `json:"title"`
	Thumbnails          thumbnails      `json:"thumbnails"`
	Duration            int64           `json:"duration"`
	IsLiveBroadcast     map[string]bool `json:"isLiveBroadcast"`
	PublishedAtEstimate string          `json:"publishedAtEstimate"`
	ViewCount           int64           `json:"viewCount"`
	Statistics          EntryStatistics `json:"statistics"`
}

type shortEntry struct {
	ID         string          `json:"id"`
	Title      string          `json:"title"`
	Thumbnails []thumbnail     `json:"thumbnails"`
	ViewCount  int64           `json:"viewCount"`
	Statistics EntryStatistics `json:"statistics"`
}

// EntryStatistics are how an upload compares with its channel.
type EntryStatistics struct {
	ZScore            float64 `json:"zScore"`
	AverageViewsRatio float64 `json:"averageViewsRatio"`
	IsPositiveOutlier bool    `json:"isPositiveOutlier"`
	IsNegativeOutlier bool    `json:"isNegativeOutlier"`
}

// ChannelStatistics are those of a sample.
type ChannelStatistics struct {
	SubscriberCount                 int64    `json:"subscriberCount"`
	SubscriberCountRaw              string   `json:"subscriberCountRaw"`
	ViewCountEstimate               float64  `json:"viewCountEstimate"`
	ViewCountMonthlyEstimate        float64  `json:"viewCountMonthlyEstimate"`
	VideosCount                     int      `json:"videosCount"`
	VideosSampleCount               int      `json:"videosSampleCount"`
	VideosCountRaw                  any      `json:"videosCountRaw"` // string for videos, integer for shorts
	AverageViewsEstimate            float64  `json:"averageViewsEstimate"`
	MedianViewsEstimate             float64  `json:"medianViewsEstimate"`
	AverageVideoDurationEstimate    *float64 `json:"averageVideoDurationEstimate"`
	StandardDeviationViewsEstimate  float64  `json:"standardDeviationViewsEstimate"`
	ViewVariationCoefficient        float64  `json:"viewVariationCoefficient"`
	AvgViewsToSubscribersRatio      float64  `json:"avgViewsToSubscribersRatio"`
	LastPublishedAtEstimate         *string  `json:"lastPublishedAtEstimate"`
	OldestParsedPublishedAtEstimate *string  `json:"oldestParsedPublishedAtEstimate"`
	PositiveOutliersCount           int      `json:"positiveOutliersCount"`
	NegativeOutliersCount           int      `json:"negativeOutliersCount"`
}

// Interface, Video details.

// DetailsAnswer is the answer about a video.
type DetailsAnswer struct {
	IDs   []string     `json:"ids"`
	Time  string       `json:"time"`
	Items []detailItem `json:"items"`
}

type detailItem struct {
	ID         string           `json:"id"`
	Kind       string           `json:"kind"`
	Snippet    detailSnippet    `json:"snippet"`
	Statistics DetailStatistics `json:"statistics"`
}

type detailSnippet struct {
	CategoryID           string     `json:"categoryId"`
	ChannelID            string     `json:"channelId"`
	ChannelTitle         string     `json:"channelTitle"`
	DefaultAudioLanguage string     `json:"defaultAudioLanguage,omitempty"`
	DefaultLanguage      *string    `json:"defaultLanguage"`
	Description          string     `json:"description"`
	IsLiveBroadcast      bool       `json:"isLiveBroadcast"`
	PublishedAt          string     `json:"publishedAt"`
	Thumbnails           thumbnails `json:"thumbnails"`
	Title                string     `json:"title"`
	Duration             int64      `json:"duration"`
}

// DetailStatistics are the counts of a video.
type DetailStatistics struct {
	CommentCount *int64 `json:"commentCount"`
	LikeCount    *int64 `json:"likeCount"`
	ViewCount    int64  `json:"viewCount"`
}

// Interface, Video comments.

type commentsAnswer struct {
	IDs   []string      `json:"ids"`
	Items []commentItem `json:"items"`
	Time  string        `json:"time"`
}

type commentItem struct {
	ID         string       `json:"id"`
	Comments   []comment    `json:"comments"`
	Statistics commentTotal `json:"statistics"`
}

type commentTotal struct {
	Count int64 `json:"count"` // of the video, not of Comments
}

type comment struct {
	AuthorChannelID      string      `json:"authorChannelId"`
	AuthorText           string      `json:"authorText"`
	AuthorThumbnail      []thumbnail `json:"authorThumbnail"`
	AuthorIsChannelOwner bool        `json:"authorIsChannelOwner"`
	Text                 string      `json:"text"`
	PublishedAt          string      `json:"publishedAt"`
	PublishedAtRaw       string      `json:"publishedAtRaw"`
	LikesCount           int64       `json:"likesCount"`
	LikesCountRaw        int64       `json:"likesCountRaw"`
	ReplyCount           int64       `json:"replyCount"`
	ReplyCountRaw        int64       `json:"replyCountRaw"`
}

// Interface, Video transcript.

type transcriptAnswer struct {
	IDs   []string         `json:"ids"`
	Items []transcriptItem `json:"items"`
}

type transcriptItem struct {
	ID         string  `json:"id"`
	Events     []event `json:"events"`
	Transcript string  `json:"transcript"`
}

type event struct {
	StartMs    int64  `json:"startMs"`
	DurationMs int64  `json:"durationMs"`
	EndMs      int64  `json:"endMs"`
	Text       string `json:"text"`
}
