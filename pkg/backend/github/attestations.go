package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Attestations returns the bundles, unverified, that GitHub stores about subjects of
// the owner, an organization or else a user: docs.github.com/rest/orgs/attestations.
// A host without this API has none.
func (c *Client) Attestations(ctx context.Context, subjects []string) (bundles [][]byte, err error) {
	const op = "listing attestations"
	owner, seen, query := "/orgs/", map[string]bool{}, url.Values{"per_page": {fmt.Sprint(perPage)}}
	for range maxPages {
		var answer struct {
			By map[string][]struct {
				Bundle json.RawMessage `json:"bundle"`
			} `json:"attestations_subject_digests"`
			Page struct{ Next string } `json:"page_info"`
		}
		address := strings.TrimSuffix(c.api(), "/repos/"+c.Owner+"/"+c.Repo) + owner + c.Owner + "/attestations/bulk-list?" + query.Encode()
		_, err := c.read(ctx, call{op: op, method: http.MethodPost, url: address, body: map[string]any{"subject_digests": subjects}}, &answer)
		switch missing := errors.Is(err, ErrNotFound); {
		case missing && owner == "/orgs/":
			owner = "/users/"
			continue
		case missing:
			return nil, nil
		case err != nil:
			return nil, err
		}
		for _, one := range slices.Concat(slices.Collect(maps.Values(answer.By))...) {
			if seen[string(one.Bundle)] = true; seen[""] || seen["null"] {
				return nil, c.Unavailable(op, errors.New("the answer has an attestation without its bundle"))
			}
		}
		if answer.Page.Next == "" {
			for _, text := range slices.Sorted(maps.Keys(seen)) {
				bundles = append(bundles, []byte(text))
			}
			return bundles, nil
		}
		query.Set("after", answer.Page.Next)
	}
	return nil, c.Unavailable(op, errors.New("the listing does not end"))
}
