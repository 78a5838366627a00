// promql answers queries of Prometheus over scraped metrics, by Prometheus's own parser of the text format, store and engine.
//
// Input (JSON): {"scrapes": [{"seconds": 0, "text": "..."}], "target": {"LABEL": "VALUE"}, "at": 30, "queries": ["..."]}. As in a scrape, a
// label of the target replaces the same label of a metric, which gets the prefix `exported_`.
// Output (JSON): for each query {"series": N}, the number of series or 1 for a scalar, or {"error": "..."}.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

type scrape struct {
	Seconds int64  `json:"seconds"`
	Text    string `json:"text"`
}

type input struct {
	Scrapes []scrape          `json:"scrapes"`
	Target  map[string]string `json:"target"`
	At      int64             `json:"at"`
	Queries []string          `json:"queries"`
}

type answer struct {
	Series int    `json:"series"`
	Error  string `json:"error,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "promql")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	db, err := tsdb.Open(directory, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, one := range in.Scrapes {
		if err := store(db, one, in.Target); err != nil {
			return err
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	answers := []answer{}
	for _, query := range in.Queries {
		count, err := series(engine, db, query, time.Unix(in.At, 0))
		one := answer{Series: count}
		if err != nil {
			one.Error = err.Error()
		}
		answers = append(answers, one)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func series(engine *promql.Engine, db storage.Queryable, query string, at time.Time) (int, error) {
	made, err := engine.NewInstantQuery(context.Background(), db, nil, query, at)
	if err != nil {
		return 0, err
	}
	defer made.Close()
	result := made.Exec(context.Background())
	if result.Err != nil {
		return 0, result.Err
	}
	switch value := result.Value.(type) {
	case promql.Vector:
		return len(value), nil
	case promql.Matrix:
		return len(value), nil
	default:
		return 1, nil
	}
}

func store(db *tsdb.DB, one scrape, target map[string]string) error {
	textParser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := textParser.TextToMetricFamilies(bytes.NewReader([]byte(one.Text)))
	if err != nil {
		return err
	}
	appender := db.Appender(context.Background())
	add := func(name string, pairs []*dto.LabelPair, more labels.Labels, value float64) error {
		builder := labels.NewBuilder(more)
		for _, pair := range pairs {
			label := pair.GetName()
			if _, is := target[label]; is {
				label = "exported_" + label
			}
			builder.Set(label, pair.GetValue())
		}
		for label, value := range target {
			builder.Set(label, value)
		}
		builder.Set(labels.MetricName, name)
		_, err := appender.Append(0, builder.Labels(), one.Seconds*1000, value)
		return err
	}
	for name, family := range families {
		for _, metric := range family.Metric {
			if err := addAll(name, metric, add); err != nil {
				return err
			}
		}
	}
	return appender.Commit()
}

func addAll(name string, metric *dto.Metric, add func(string, []*dto.LabelPair, labels.Labels, float64) error) error {
	none := labels.EmptyLabels()
	switch {
	case metric.Counter != nil:
		return add(name, metric.Label, none, metric.Counter.GetValue())
	case metric.Gauge != nil:
		return add(name, metric.Label, none, metric.Gauge.GetValue())
	case metric.Untyped != nil:
		return add(name, metric.Label, none, metric.Untyped.GetValue())
	case metric.Histogram != nil:
		histogram := metric.Histogram
		if err := add(name+"_count", metric.Label, none, float64(histogram.GetSampleCount())); err != nil {
			return err
		}
		if err := add(name+"_sum", metric.Label, none, histogram.GetSampleSum()); err != nil {
			return err
		}
		for _, bucket := range histogram.Bucket {
			bound := "+Inf"
			if !math.IsInf(bucket.GetUpperBound(), 1) {
				bound = fmt.Sprint(bucket.GetUpperBound())
			}
			le := labels.FromStrings("le", bound)
			if err := add(name+"_bucket", metric.Label, le, float64(bucket.GetCumulativeCount())); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("%s: a type that is not supported", name)
	}
}
