package cni

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestHostileCNICaches checks content that libcni did not write.
func TestHostileCNICaches(t *testing.T) {
	name, good := newCNIFile().write(t)
	v1 := string(good)
	replace := func(old, with string) string {
		if !strings.Contains(v1, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(v1, old, with, 1)
	}
	add := func(member string) string { return "{" + member + "," + v1[1:] }
	last := func(member string) string { return v1[:len(v1)-1] + "," + member + "}" }
	bare := parseResult{ContainerID: boxID, Network: "n", IfName: "eth0"}
	broken := bare
	broken.Broken = true
	untied := func(why untied) parseResult {
		return parseResult{V1: true, Untied: why, PodNamespace: "default", PodName: "two-labnode"}
	}
	whole := parsedCache(name, good)
	if whole.Untied != "" {
		t.Fatalf("%+v", whole)
	}
	inNetNS := whole
	inNetNS.NetNS = "/run/netns/x"
	for what, test := range map[string]struct {
		content string
		want    parseResult
	}{
		"white space around": {"\n\t " + v1 + " \r\n", whole},
		"other keys":         {add(`"cniVersion":"2.0.0","x":{"kind":"y"}`), whole},
		"null elsewhere":     {replace(`"containerId":"`+boxID+`",`, `"containerId":"`+boxID+`","capabilityArgs":null,"result":null,`), whole},
		"args are null": {
			`{"kind":"cniCacheV1","containerId":"` + boxID + `","ifName":"eth0","networkName":"n","cniArgs":null}`,
			parseResult{V1: true, Untied: untiedContent},
		},
		"escaped namespace": {add(`"result":{"interfaces":[{"sandbox":"\/run\u002fnetns/x"}]}`), inNetNS},
		"interfaces twice":  {add(`"result":{"interfaces":[{"sandbox":"/run/netns/x"}],"interfaces":[]}`), untied(untiedContradiction)},
		"a namespace taken back": {
			add(`"result":{"interfaces":[{"sandbox":"/run/netns/x","sandbox":""}]}`), untied(untiedContradiction),
		},
		"escaped key":                {replace(`"ifName"`, `"\u0069fName"`), whole},
		"BOM":                        {"\ufeff" + v1, broken},
		"trailing garbage":           {v1 + "}", broken},
		"twice":                      {v1 + v1, broken},
		"cut off in a second copy":   {`{"kind":"cniCacheV1","kind":"`, broken},
		"zeros":                      {strings.Repeat("\x00", len(v1)), broken},
		"zeros after":                {v1 + "\x00", broken},
		"white space":                {" \n", broken},
		"comment":                    {v1 + "//", broken},
		"trailing comma":             {v1[:len(v1)-1] + ",}", broken},
		"a number with a zero first": {add(`"x":01`), broken},
		"NaN":                        {add(`"x":NaN`), broken},
		"a newline in a string":      {add("\"x\":\"\n\""), broken},
		"invalid UTF-8 elsewhere":    {add("\"x\":\"\xff\""), untied(untiedContent)},
		"invalid UTF-8 in the UID":   {replace(podUID, "\xff"+podUID[1:]), untied(untiedContent)},
		"invalid UTF-8 in two UIDs":  {replace(`"`+podUID+`"`, "\"\xff\"],[\"K8S_POD_UID\",\"\xfe\""), untied(untiedContent)},
		"invalid UTF-8 in an ID":     {replace(boxID, "\xff"+boxID[1:]), untied(untiedContent)},
		"no object":                  {"[" + v1 + "]", parseResult{Untied: untiedContent}},
		"null":                       {"null", parseResult{Untied: untiedContent}},
		"an empty object":            {"{}", parseResult{Untied: untiedContent}},
		"another kind":               {replace("cniCacheV1", "cniCacheV2"), parseResult{Untied: untiedContent}},
		"no kind":                    {replace(`"kind":"cniCacheV1",`, ""), parseResult{Untied: untiedContent}},
		"kind is a number":           {replace(`"cniCacheV1"`, "1"), parseResult{Untied: untiedContent}},
		"two kinds":                  {add(`"kind":"cniCacheV2"`), untied(untiedContradiction)},
		"ID twice":                   {add(`"containerId":"` + otherID + `"`), untied(untiedContradiction)},
		"ID twice, the same":         {add(`"containerId":"` + boxID + `"`), untied(untiedContradiction)},
		"ID twice, the last other":   {last(`"containerId":"` + otherID + `"`), untied(untiedContradiction)},
		"ID twice, in capitals":      {last(`"CONTAINERID":"` + otherID + `"`), untied(untiedContradiction)},
		"ID twice, folded":           {last(`"\u212aind":"cniCacheV1"`), untied(untiedContradiction)},
		"ID twice, escaped":          {last(`"container\u0049d":"` + otherID + `"`), untied(untiedContradiction)},
		"numbers twice":              {add(`"netns":5,"netns":6`), untied(untiedContradiction)},
		"args twice":                 {add(`"cniArgs":[["K8S_POD_UID","` + podUID + `"]]`), untied(untiedContradiction)},
		"result twice":               {add(`"result":{},"result":{}`), untied(untiedContradiction)},
		"no ID":                      {replace(`"containerId":"`+boxID+`",`, ""), untied(untiedContent)},
		"ID is null":                 {replace(`"containerId":"`+boxID+`"`, `"containerId":null`), untied(untiedContent)},
		"ID is an array":             {replace(`"containerId":"`+boxID+`"`, `"containerId":["`+boxID+`"]`), untied(untiedContent)},
		"UID is a number":            {replace(`"`+podUID+`"`, "5"), untied(untiedContent)},
		"UID is an array":            {replace(`"`+podUID+`"`, `["`+podUID+`"]`), untied(untiedContent)},
		"a triple":                   {replace(`"`+podUID+`"`, `"`+podUID+`","x"`), untied(untiedContent)},
		"a single":                   {replace(`["IgnoreUnknown","1"]`, `["IgnoreUnknown"]`), untied(untiedContent)},
		"an object of args":          {replace(`["IgnoreUnknown","1"]`, `{"IgnoreUnknown":"1"}`), untied(untiedContent)},
		"an empty name of a network": {replace(`"networkName":"n"`, `"networkName":""`), untied(untiedName)},
		"deep":                       {add(`"x":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6)), parseResult{Untied: untiedSize}},
		"deep and cut off":           {strings.Repeat(`{"a":`, 3e5), parseResult{Untied: untiedSize}},
		"long":                       {v1 + strings.Repeat(" ", MaxFile), parseResult{Untied: untiedSize}},
		"as long as may be":          {v1 + strings.Repeat(" ", MaxFile-len(v1)), whole},
		"bare result, 0.3.1": {
			`{"cniVersion":"0.3.1","interfaces":[{"name":"eth0"}],"ips":[{"version":"4","address":"10.1.2.3/24"}],"dns":{}}`, bare,
		},
		"bare result, 0.2.0":      {`{"cniVersion":"0.2.0","ip4":{"ip":"10.1.2.3/24"},"dns":{}}`, bare},
		"bare result, no version": {`{"dns":{}}`, bare},
		"bare result with an ID":  {`{"cniVersion":"0.3.1","dns":{},"containerId":"` + otherID + `"}`, parseResult{Untied: untiedContent}},
		"bare result of a kind":   {`{"cniVersion":"0.3.1","dns":{},"Kind":"cniCacheV3"}`, parseResult{Untied: untiedContent}},
	} {
		if got := parsedCache(name, []byte(test.content)); got != test.want {
			t.Errorf("%s:\n got %+v\nwant %+v", what, got, test.want)
		}
	}
}

// TestSplicedCNICaches combines members and arguments of two containers' files in any order and number: if a file is
// tied, encoding/json parses no other value from it.
func TestSplicedCNICaches(t *testing.T) {
	_, one := newCNIFile().write(t)
	other := newCNIFile()
	other.ContainerID, other.CniArgs[3][1], other.NetNS = otherID, otherID, podNS
	_, two := other.write(t)
	members := []string{
		`"KIND":"cniCacheV1"`, `"container\u0049d":"` + boxID + `"`, `"x":[{"containerId":"` + otherID + `"}]`,
		`"result":{"interfaces":[{"sandbox":"/run/netns/x"}]}`,
	}
	for _, data := range [][]byte{one, two} {
		var o map[string]json.RawMessage
		if err := json.Unmarshal(data, &o); err != nil {
			t.Fatal(err)
		}
		for key, value := range o {
			members = append(members, fmt.Sprintf("%q:%s", key, value))
		}
	}
	slices.Sort(members)
	rnd := rand.New(rand.NewPCG(1, 2))
	tied, contradictions := 0, 0
	for range 50_000 {
		rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		content := []byte("{" + strings.Join(members[:4+rnd.IntN(9)], ",") + "}")
		for _, name := range []string{"n-" + boxID + "-eth0", "n-" + otherID + "-eth0"} {
			got := parsedCache(name, content)
			consistent(t, name, got)
			switch {
			case got.V1 && got.Untied == "":
				tied++
				sameAsJSON(t, content, got)
			case got.Untied == untiedContradiction:
				contradictions++
			}
		}
	}
	if tied < 500 || contradictions < 500 {
		t.Errorf("only %d tied, %d contradict themselves", tied, contradictions)
	}
}

// TestWhyDuplicateKeysCount shows that encoding/json, and so libcni, uses the last of two keys and ignores case. A
// parser that uses the first one, or only keys in the right case, would return another container than the runtime.
func TestWhyDuplicateKeysCount(t *testing.T) {
	var f libcniFile
	err := json.Unmarshal(fmt.Appendf(nil, `{"containerId":%q,"CONTAINERID":%q}`, boxID, otherID), &f)
	if err != nil || f.ContainerID != otherID {
		t.Errorf("%q, %v", f.ContainerID, err)
	}
}

func TestCNIScratch(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          parseResult
	}{
		{boxID, `[{"name":"n","type":"bridge"}]`, parseResult{ContainerID: boxID}},
		{boxID, ` {"name":"cbr0","type":"bridge"}`, parseResult{ContainerID: boxID}},
		{boxID, "", parseResult{Broken: true, ContainerID: boxID}},
		{boxID, `[{"name":`, parseResult{Broken: true, ContainerID: boxID}},
		{boxID, `[] []`, parseResult{Broken: true, ContainerID: boxID}},
		{boxID, "null", parseResult{Untied: untiedContent}},
		{boxID, strings.Repeat("[", 1e6), parseResult{Untied: untiedSize}},
		{boxID, strings.Repeat(" ", MaxFile+1), parseResult{Untied: untiedSize}},
		{boxID[1:], "[]", parseResult{Untied: untiedName}},
		{boxID + "0", "[]", parseResult{Untied: untiedName}},
		{"n-" + boxID + "-eth0", "[]", parseResult{Untied: untiedName}},
		{strings.ToUpper(boxID), "", parseResult{Broken: true, Untied: untiedName}},
		{"multus-shim.json", "[]", parseResult{Untied: untiedName}},
	} {
		if got := parsedScratch(test.name, []byte(test.content)); got != test.want {
			t.Errorf("%s %.20q:\n got %+v\nwant %+v", test.name, test.content, got, test.want)
		}
	}
}
