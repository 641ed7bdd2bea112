package vsa

import (
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TraceOf returns the run that made a summary, and the trace in which its
// subject was made. Zero ids mean that the summary does not give them. They do
// not affect verification; they are for finding the run.
func TraceOf(s Summary) (trace.IDs, error) {
	var w struct {
		Trace trace.IDs `json:"waybill_trace"`
	}
	if err := strictjson.UnmarshalOpen(s.statement.Predicate(), &w, strictjson.MaxSize(maxPredicate)); err != nil {
		return trace.IDs{}, verdict.Wrap(verdict.StatementParse, "summary", err)
	}
	return w.Trace, nil
}
