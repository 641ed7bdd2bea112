package tuf_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// A repository on this machine leads nobody to plain http elsewhere.
func TestRedirects(t *testing.T) {
	for _, row := range []struct {
		name, to string
		ok       bool
	}{
		{"within itself", "/again/timestamp.json", true},
		{"to a link-local address", "http://169.254.169.254/timestamp.json", false},
		{"to another host", "http://tuf.example.test/timestamp.json", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, c := trusted(t)
			r.Put("again/timestamp.json", r.File("timestamp.json"))
			r.Answer("timestamp.json", func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, row.to, http.StatusFound)
			})
			got, err := tuf.Refresh(t.Context(), c)
			if row.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused(t, got, err, verdict.TrustDown)
			if !strings.Contains(err.Error(), "plain http") {
				t.Errorf("refused for another reason: %v", err)
			}
		})
	}
}
