package profile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate/profile"
)

func TestModuleProxy(t *testing.T) {
	for given, want := range map[string]string{
		"":            profile.DefaultModuleProxy,
		"modules: {}": profile.DefaultModuleProxy,
		`modules: {proxy: "https://go.example.test/all"}`: "https://go.example.test/all",
		`modules: {proxy: "http://127.0.0.1:8080"}`:       "http://127.0.0.1:8080",
	} {
		p, err := with(t, given)
		if err != nil || p.ModuleProxy != want {
			t.Errorf("%q: %q, %v", given, p.ModuleProxy, err)
		}
	}
	for _, address := range []string{
		"", "off", "direct", "go.example.test", "http://go.example.test", "file:///modules", "https://", "https://user@go.example.test",
		"https://go.example.test,direct", "https://go.example.test?x=y", "https://go.example.test#x", "https://a.example.test|https://b.example.test",
	} {
		_, err := with(t, "modules: {proxy: \""+address+"\"}")
		if err == nil || !strings.Contains(err.Error(), "modules.proxy") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := with(t, "modules: {sums: off}"); err == nil {
		t.Error("a key that nobody reads is taken")
	}
}

// with loads the profile with one more line.
func with(t *testing.T, line string) (profile.Profile, error) {
	t.Helper()
	files := valid(t)
	files["profile.yaml"] += line + "\n"
	return profile.Load(place(t, files), profile.Reader{Now: time.Now()})
}
