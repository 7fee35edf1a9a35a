package simulator

// Interface, Scan record.

type scanAnswer struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Status    string    `json:"status"`
	Input     scanInput `json:"input"`
	EndedAt   *string   `json:"endedAt"`
	CreatedAt string    `json:"createdAt"`
	UpdatedAt string    `json:"updatedAt"`
}

type scanInput struct {
	Query     []string `json:"query"`
	Threshold any      `json:"threshold"` // scanThreshold or a number
}

type scanThreshold struct {
	Channels      int64 `json:"channels"`
	OutlierVideos int64 `json:"outlierVideos"`
}

// Interface, Errors. The text of status is not shown there; services of this shape say "error".

type errorAnswer struct {
	Error  any    `json:"error"`
	Status string `json:"status"`
}

type simpleError struct {
	Message string `json:"message"`
}

// A complaint is one thing that is wrong with a request.
type complaint struct {
	Code       string   `json:"code"`
	Validation string   `json:"validation"`
	Message    string   `json:"message"`
	Path       []string `json:"path"`
}

type validationError struct {
	Errors []complaint `json:"errors"`
}

type rateLimitError struct {
	Message   string    `json:"message"`
	RateLimit rateLimit `json:"rateLimit"`
}

type rateLimit struct {
	Limit     int    `json:"limit"`
	Current   int    `json:"current"`
	Remaining int    `json:"remaining"`
	ResetTime string `json:"resetTime"`
}
