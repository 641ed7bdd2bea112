package store

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// google is the JSON API of Google Cloud Storage:
// https://cloud.google.com/storage/docs/json_api/v1/objects
type google struct{}

func (google) listing(b Bucket, token string) string {
	query := url.Values{
		"prefix":     {b.Prefix},
		"maxResults": {"1000"},
		"fields":     {"items(name,size,generation),nextPageToken"},
	}
	if token != "" {
		query.Set("pageToken", token)
	}
	return b.Endpoint + "/storage/v1/b/" + url.PathEscape(b.Name) + "/o?" + query.Encode()
}

func (google) read(raw []byte) (page, error) {
	var answer struct { // the service may add fields
		Items []struct {
			Name       string `json:"name"`
			Size       string `json:"size"`
			Generation string `json:"generation"`
		} `json:"items"`
		Next string `json:"nextPageToken"`
	}
	if err := strictjson.UnmarshalOpen(raw, &answer); err != nil {
		return page{}, err
	}
	p := page{next: answer.Next}
	for _, item := range answer.Items {
		p.items = append(p.items, listed{item.Name, item.Size, item.Generation})
	}
	return p, nil
}

func (google) object(b Bucket, name string) string {
	return b.Endpoint + "/download/storage/v1/b/" + url.PathEscape(b.Name) + "/o/" + url.PathEscape(name) + "?alt=media"
}

// amazon is the REST API of Amazon S3, which other services offer too:
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
type amazon struct{}

func (amazon) listing(b Bucket, token string) string {
	query := url.Values{
		"list-type":     {"2"},
		"prefix":        {b.Prefix},
		"max-keys":      {"1000"},
		"encoding-type": {"url"}, // XML cannot represent every name
	}
	if token != "" {
		query.Set("continuation-token", token)
	}
	return b.Endpoint + "/" + url.PathEscape(b.Name) + "?" + query.Encode()
}

func (amazon) read(raw []byte) (page, error) {
	var answer struct {
		XMLName   xml.Name `xml:"ListBucketResult"`
		Encoding  string   `xml:"EncodingType"`
		Truncated string   `xml:"IsTruncated"`
		Next      string   `xml:"NextContinuationToken"`
		Contents  []struct {
			Key  string `xml:"Key"`
			Size string `xml:"Size"`
			ETag string `xml:"ETag"`
		} `xml:"Contents"`
	}
	decoder := xml.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&answer); err != nil {
		return page{}, fmt.Errorf("reading the list: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return page{}, errors.New("reading the list: trailing data")
	}
	switch {
	case answer.Truncated == "true" && answer.Next != "":
	case answer.Truncated == "false":
		answer.Next = ""
	default:
		return page{}, errors.New("the list neither ends nor names its next page")
	}
	p := page{next: answer.Next}
	for _, item := range answer.Contents {
		name := item.Key
		if answer.Encoding == "url" {
			var err error
			if name, err = url.QueryUnescape(item.Key); err != nil {
				return page{}, err
			}
		}
		p.items = append(p.items, listed{name, item.Size, strings.Trim(item.ETag, `"`)})
	}
	return p, nil
}

func (amazon) object(b Bucket, name string) string {
	// In a path, this service reads an unescaped plus sign as a space.
	return b.Endpoint + "/" + url.PathEscape(b.Name) + "/" + strings.ReplaceAll(name, "+", "%2B")
}
