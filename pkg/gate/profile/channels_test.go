package profile_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/gate/profile"
)

func TestChannels(t *testing.T) {
	for given, want := range map[string]profile.Channels{
		"":             {},
		"channels: {}": {},
		`channels: {index: "https://dl.example.test/channels.sigstore.json"}`: {Index: "https://dl.example.test/channels.sigstore.json"},
		`channels: {markers: "https://dl.example.test/{channel}.txt"}`:        {Markers: "https://dl.example.test/{channel}.txt"},
	} {
		p, err := with(t, given)
		if err != nil || p.Channels != want {
			t.Errorf("%q: %+v, %v", given, p.Channels, err)
		}
	}
	for _, line := range []string{
		`index: "https://dl.example.test/"`, `markers: "https://dl.example.test/stable.txt"`, `markers: "https://dl.example.test/{channel}/"`,
		`markers: "https://{channel}.example.test/{channel}.txt"`,
	} {
		if _, err := with(t, "channels: {"+line+"}"); err == nil || !strings.Contains(err.Error(), "channels.") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
