"""What is in a page of HTML."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Attributes: `tags` and `attributes`, in order; `texts`, by the id of the tag before them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], {}
        self._id = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._id = dict(attrs).get("id", "")

    def handle_data(self, data):
        self.texts[self._id] = self.texts.get(self._id, "") + data
