package library

// niche is a group of topics. A channel has one niche, and a semantic search for a topic also
// finds, further down, the others of its niche.
type niche struct {
	Name       string
	words      string // further English words for it
	categoryID string // of video details
	rpm        float64
	faceless   float64 // share of faceless channels
	Topics     []topic
}

// topic is the subject of a video, with its names in the order of [languages].
type topic struct {
	Names [2]string
	words string // related English words
}

var languages = [2]string{"en", "ja"}

// Niches are the subjects of channels.
var Niches = []niche{
	{"coffee", "coffee cafe barista caffeine beans brew brewing", "26", 6.5, 0.3, []topic{
		{[2]string{"home espresso", "おうちエスプレッソ"}, "machine portafilter crema shot dial"},
		{[2]string{"moka pot", "マキネッタ"}, "stovetop bialetti italian"},
		{[2]string{"latte art", "ラテアート"}, "milk steaming rosetta tulip cappuccino foam"},
		{[2]string{"pour over", "ハンドドリップ"}, "v60 chemex filter drip kettle"},
		{[2]string{"coffee grinder", "コーヒーミル"}, "burr grind grinding"},
	}},
	{"gaming", "game games gaming gamer play playthrough", "20", 2.2, 0.6, []topic{
		{[2]string{"Minecraft", "マインクラフト"}, "redstone survival creeper block build"},
		{[2]string{"speedrun", "スピードラン"}, "glitch any% record fastest"},
		{[2]string{"retro gaming", "レトロゲーム"}, "console cartridge nes arcade emulator"},
		{[2]string{"chess", "将棋とチェス"}, "opening gambit checkmate grandmaster elo"},
		{[2]string{"indie games", "インディーゲーム"}, "devlog unity godot steam demo"},
	}},
	{"tech", "tech technology computer gadget hardware software", "28", 7.8, 0.45, []topic{
		{[2]string{"mechanical keyboard", "メカニカルキーボード"}, "keyboards switches keycaps lube typing"},
		{[2]string{"home lab", "自宅サーバー"}, "homelab nas proxmox rack server"},
		{[2]string{"Linux desktop", "Linuxデスクトップ"}, "arch ubuntu distro terminal wayland"},
		{[2]string{"3D printing", "3Dプリンター"}, "filament printer nozzle pla benchy"},
		{[2]string{"AI tools", "AIツール"}, "artificial intelligence prompt model agent automation"},
	}},
	{"cooking", "cooking food recipe kitchen chef eat", "26", 4.1, 0.35, []topic{
		{[2]string{"sourdough", "サワードウ"}, "bread starter loaf crumb baking flour"},
		{[2]string{"ramen", "ラーメン"}, "noodles broth tonkotsu soup"},
		{[2]string{"meal prep", "作り置き"}, "lunch protein week containers healthy"},
		{[2]string{"street food", "屋台グルメ"}, "market vendor night stall"},
		{[2]string{"pizza dough", "ピザ生地"}, "neapolitan oven pizza mozzarella"},
	}},
	{"fitness", "fitness workout training exercise body health", "17", 4.9, 0.15, []topic{
		{[2]string{"calisthenics", "自重トレーニング"}, "pullup pushup planche muscle bodyweight"},
		{[2]string{"marathon training", "マラソン練習"}, "running runner pace shoes race"},
		{[2]string{"yoga", "ヨガ"}, "stretch flexibility asana breathing morning"},
		{[2]string{"bouldering", "ボルダリング"}, "climbing climb crimp gym grip"},
		{[2]string{"cold plunge", "アイスバス"}, "ice bath sauna recovery"},
	}},
	{"making", "diy make maker build craft workshop handmade", "26", 5.2, 0.5, []topic{
		{[2]string{"woodworking", "木工"}, "wood joinery plane saw table bench"},
		{[2]string{"leathercraft", "レザークラフト"}, "leather wallet stitch bag"},
		{[2]string{"crochet", "かぎ針編み"}, "yarn knit knitting amigurumi granny"},
		{[2]string{"van conversion", "バンライフ"}, "vanlife camper sprinter van"},
		{[2]string{"pottery", "陶芸"}, "clay glaze wheel kiln mug"},
	}},
	{"money", "money finance income business rich wealth", "27", 14.5, 0.55, []topic{
		{[2]string{"index funds", "インデックス投資"}, "investing invest stocks etf dividend portfolio"},
		{[2]string{"side hustle", "副業"}, "passive earn freelance online job"},
		{[2]string{"minimalism", "ミニマリスト"}, "declutter simple frugal less"},
		{[2]string{"home buying", "マイホーム購入"}, "mortgage house rent property loan"},
		{[2]string{"budgeting", "家計簿"}, "budget saving debt spending envelope"},
	}},
	{"learning", "learn learning study explained science history documentary", "27", 5.9, 0.65, []topic{
		{[2]string{"Roman history", "ローマ史"}, "rome empire caesar legion ancient"},
		{[2]string{"black holes", "ブラックホール"}, "space physics universe astronomy galaxy"},
		{[2]string{"language learning", "語学学習"}, "fluent polyglot vocabulary japanese spanish grammar"},
		{[2]string{"piano practice", "ピアノ練習"}, "chords music scales chopin keys"},
		{[2]string{"urban gardening", "ベランダ菜園"}, "garden tomato plants compost seeds balcony"},
	}},
}
