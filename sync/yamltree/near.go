package yamltree

// Nearest returns the candidate most similar to word, or "" if none is similar enough: about a third of
// the letters may differ. Of equally similar ones it returns the first.
func Nearest(word string, candidates []string) string {
	letters := []rune(word)
	if len(letters) > 64 { // too long for a typing mistake
		return ""
	}
	best, fewest := "", (len(letters)+1)/3+1
	for _, c := range candidates {
		if d := editDistance(letters, []rune(c)); d < fewest {
			best, fewest = c, d
		}
	}
	return best
}

// DidYouMean returns a hint with the candidate most similar to word, which is n's value or a part of it.
// It returns "" if none is similar, or if the value came from outside the file.
func (n *Node) DidYouMean(word string, candidates []string) string {
	if n.FromOutside() {
		return ""
	}
	if near := Nearest(word, candidates); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

// editDistance returns the restricted Damerau-Levenshtein distance of a and b: the number of letters that are
// added, missing, wrong, or swapped with their neighbour.
func editDistance(a, b []rune) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := range a {
		for j := range b {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			d := min(rows[i][j+1]+1, rows[i+1][j]+1, rows[i][j]+wrong)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = d
		}
	}
	return rows[len(a)][len(b)]
}
