package scale

import (
	_ "embed"
	"encoding/json"

	"outlierd/outlier"
)

// Measured has the measurements that [Count] is based on.
type Measured struct {
	Services map[string]Service `json:"services"` // by use, because answers depend on what is requested
	Cost     Cost               `json:"cost"`
}

// Service describes the answers of the service. The numbers are those of the simulator; replace them for
// another service.
type Service struct {
	Answers map[outlier.Operation]Answer `json:"answers"`

	New      float64 `json:"new"`      // share of the best hits of a search that are new, per day
	Distinct float64 `json:"distinct"` // share of distinct hits in the hits of a run
	Channels float64 `json:"channels"` // channels of the best hits, per hit
}

// Answer is an average answer of an operation.
type Answer struct {
	Bytes float64            `json:"bytes"` // of the body as received, which the journal stores
	Rows  map[string]float64 `json:"rows"`  // in each table
}

// hits returns the number of hits of a page.
func (a Answer) hits() float64 {
	return max(a.Rows["outliers_history"], a.Rows["found_channels_history"])
}

// Cost has the cost of storing answers.
type Cost struct {
	StatePerCall     float64            `json:"state_per_call"`     // bytes of state.db, without the body
	ParquetPerRow    map[string]float64 `json:"parquet_per_row"`    // bytes, by table, after the day is compacted
	DuckDBPerParquet float64            `json:"duckdb_per_parquet"` // bytes of the file for each byte of Parquet
	LakePut          float64            `json:"lake_put"`           // requests to the bucket of a lake per commit
	LakeGet          float64            `json:"lake_get"`
	LakeDelete       float64            `json:"lake_delete"`
	CPUPerCall       float64            `json:"cpu_per_call"` // seconds, including sinks and bucket
}

//go:embed measured.json
var measured []byte

// Given returns the measurements.
func Given() (*Measured, error) {
	var m Measured
	err := json.Unmarshal(measured, &m)
	return &m, err
}
