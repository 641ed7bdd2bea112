package featurestore

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTidy: what a killed writer left is removed when it is a day older than our
// clock and than the last thing that was written; nothing else is.
func TestTidy(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for name, row := range map[string]struct {
		file    string
		age     time.Duration // of the file, before the last thing that was written
		clock   time.Duration // by how much ours differs from the directory's
		uri     string        // before its path
		removed bool
	}{
		"of a statement":             {file: "statements/waybill/EmitVSA/.waybill-tmp-A", age: 2 * day, removed: true},
		"of a feature":               {file: "features/waybill/.waybill-tmp-A", age: 2 * day, removed: true},
		"of a member":                {file: "members/.waybill-tmp-A", age: 2 * day, removed: true},
		"by its address":             {file: "members/.waybill-tmp-A", age: 2 * day, uri: "file://", removed: true},
		"it may be written just now": {file: "statements/waybill/EmitVSA/.waybill-tmp-A", age: time.Minute},
		"less than a day old":        {file: "statements/waybill/EmitVSA/.waybill-tmp-A", age: day - time.Second},
		"our clock is ahead":         {file: "statements/waybill/EmitVSA/.waybill-tmp-A", age: time.Minute, clock: 9 * day},
		"our clock is behind":        {file: "statements/waybill/EmitVSA/.waybill-tmp-A", age: 2 * day, clock: -9 * day},
		"another file":               {file: "statements/waybill/EmitVSA/1.sigstore.json", age: 9 * day},
		"outside of the parts":       {file: ".waybill-tmp-A", age: 9 * day},
		"a bucket of that name":      {file: "members/.waybill-tmp-A", age: 9 * day, uri: "gs:/"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := MakeSite(dir); err != nil {
				t.Fatal(err)
			}
			write := func(name string, at time.Time) string {
				path := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
				return path
			}
			path := write(row.file, now.Add(-row.age))
			last := write("members/reconciler-0.json", now)
			Site{URI: row.uri + dir}.Tidy(now.Add(row.clock))
			if _, err := os.Stat(path); os.IsNotExist(err) != row.removed {
				t.Errorf("%s: %v", row.file, err)
			}
			if _, err := os.Stat(last); err != nil {
				t.Error(err)
			}
		})
	}
	Site{URI: filepath.Join(t.TempDir(), "absent")}.Tidy(now) // there is nothing to do
}
