package scale

import (
	_ "embed"
	"encoding/json"

	"outlierd/outlier"
)

// Measured is what [Count] takes as given.
type Measured struct {
	Services map[string]Service `json:"services"` // by the use, as answers depend on what is asked about
	Cost     Cost               `json:"cost"`
}

// Service describes the answers of the service. The numbers are those of the simulator. For another service,
// replace them.
type Service struct {
	Answers map[outlier.Operation]Answer `json:"answers"`

	New      float64 `json:"new"`      // share of the best hits of a search that were never among them, a day
	Distinct float64 `json:"distinct"` // hits of a run that are different ones, as a share
	Channels float64 `json:"channels"` // channels of the best hits, for each hit
}

// Answer is an average answer of an operation.
type Answer struct {
	Bytes float64            `json:"bytes"` // of the body as it comes over the wire, which the journal keeps
	Rows  map[string]float64 `json:"rows"`  // in each table
}

// hits are those of a page.
func (a Answer) hits() float64 {
	return max(a.Rows["outliers_history"], a.Rows["found_channels_history"])
}

// Cost is what storing answers takes.
type Cost struct {
	StatePerCall     float64            `json:"state_per_call"`     // bytes of state.db, beside the body
	ParquetPerRow    map[string]float64 `json:"parquet_per_row"`    // bytes, by table, once a day is compacted
	DuckDBPerParquet float64            `json:"duckdb_per_parquet"` // bytes of the file for each byte of Parquet
	LakePut          float64            `json:"lake_put"`           // requests to the bucket of a lake for each commit
	LakeGet          float64            `json:"lake_get"`
	LakeDelete       float64            `json:"lake_delete"`
	CPUPerCall       float64            `json:"cpu_per_call"` // seconds, with loading, publishing and the copy in a bucket
}

//go:embed measured.json
var measured []byte

// Given is what was measured.
func Given() (*Measured, error) {
	var m Measured
	err := json.Unmarshal(measured, &m)
	return &m, err
}
