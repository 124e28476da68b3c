#include "harness/base/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"

namespace attnlab {
namespace {

constexpr std::size_t kGap = 2;  // between columns

// Counts the characters of UTF-8 text: its bytes without continuation bytes.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::size_t size = characters(text);
  const std::string space(size < width ? width - size : 0, ' ');
  return left ? text + space : space + text;
}

// Names a run of neighbouring columns.
struct Span {
  std::size_t first = 0;
  std::size_t count = 1;
};

std::vector<Span> group_spans(const TextTable& table) {
  std::vector<Span> spans;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const std::string& group = table.columns[c].group;
    if (c > 0 && !group.empty() && group == table.columns[c - 1].group) {
      ++spans.back().count;
    } else {
      spans.push_back({.first = c});
    }
  }
  return spans;
}

std::size_t width_of(const Span& span, const std::vector<std::size_t>& widths) {
  std::size_t total = kGap * (span.count - 1);
  for (std::size_t c = span.first; c < span.first + span.count; ++c) total += widths[c];
  return total;
}

// Widens the last column of the span until the text fits.
void make_room(const Span& span, std::size_t needed, std::vector<std::size_t>& widths) {
  const std::size_t there = width_of(span, widths);
  if (there < needed) widths[span.first + span.count - 1] += needed - there;
}

std::vector<std::size_t> column_widths(const TextTable& table, const std::vector<Span>& groups) {
  std::vector<std::size_t> widths;
  for (const TextColumn& column : table.columns) widths.push_back(characters(column.title));
  for (std::size_t most : {std::size_t{1}, table.columns.size()}) {  // single cells first
    for (const auto& row : table.rows) {
      for (std::size_t c = 0; c < row.size(); c += row[c].span) {
        if (row[c].span > most) continue;
        make_room({.first = c, .count = row[c].span}, characters(row[c].text), widths);
      }
    }
  }
  for (const Span& group : groups) {
    make_room(group, characters(table.columns[group.first].group), widths);
  }
  return widths;
}

// Returns "--- v2 ---" across a group of several columns; a group of one has just its name.
std::string group_title(const std::string& name, const Span& span, std::size_t width) {
  const std::size_t size = characters(name);
  if (name.empty() || span.count == 1 || size + 4 > width) return padded(name, width, false);
  const std::size_t dashes = width - size - 2;
  return std::string(dashes / 2, '-') + " " + name + " " + std::string(dashes - dashes / 2, '-');
}

// Returns the cell with the gap before it (none before the first), which takes the mark.
std::string render_cell(const TextCell& cell, std::size_t width, bool left, bool first) {
  std::string text = padded(cell.text, width, left);
  if (first) return text;
  text.insert(0, kGap, ' ');
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin != std::string::npos) text[begin - 1] = cell.mark;
  return text;
}

void end_line(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string full_title(const TextColumn& column) {
  return column.group.empty() ? column.title : column.group + " " + column.title;
}

// Returns whether a column is a key; the first column always is one.
bool is_key(const TextTable& table, std::size_t c) { return c == 0 || table.columns[c].key; }

// Returns the keys and columns [first, end); a spanning cell keeps the part that is in them.
TextTable part_of(const TextTable& table, std::size_t first, std::size_t end) {
  const auto is_in = [&](std::size_t c) { return is_key(table, c) || (first <= c && c < end); };
  TextTable part;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (is_in(c)) part.columns.push_back(table.columns[c]);
  }
  for (const auto& row : table.rows) {
    std::vector<TextCell>& cells = part.rows.emplace_back();
    for (std::size_t c = 0; c < row.size(); c += row[c].span) {
      std::size_t span = 0;
      for (std::size_t i = c; i < c + row[c].span; ++i) span += is_in(i) ? 1 : 0;
      if (span == 0) continue;
      cells.push_back({row[c].text, span});
      cells.resize(cells.size() + span - 1);
    }
  }
  return part;
}

// Returns the end of the columns from `first` on that fit beside the keys, of one at the least. A
// group is split only where it does not fit alone.
std::size_t end_of_part(const TextTable& table, std::size_t first) {
  const std::size_t count = table.columns.size();
  std::size_t end = first + 1;
  while (end < count && width(part_of(table, first, end + 1)) <= most_columns()) ++end;
  if (end == count) return end;
  for (std::size_t border = end; border > first; --border) {
    const std::string& group = table.columns[border].group;
    if (group.empty() || group != table.columns[border - 1].group) return border;
  }
  return end;
}

// Returns whether there are several keys and some column does not fit beside them.
bool has_too_wide_keys(const TextTable& table) {
  bool are_several = false;
  bool is_too_wide = false;
  for (std::size_t c = 1; c < table.columns.size(); ++c) {
    if (table.columns[c].key) are_several = true;
    is_too_wide = is_too_wide || width(part_of(table, c, c + 1)) > most_columns();
  }
  return are_several && is_too_wide;
}

// Makes the row number the only key.
TextTable with_numbered_rows(const TextTable& table) {
  TextTable numbered = {.columns = {{.title = "#"}}, .rows = {}};
  for (TextColumn column : table.columns) {
    column.key = false;
    numbered.columns.push_back(std::move(column));
  }
  for (const auto& row : table.rows) {
    numbered.rows.push_back({{std::to_string(numbered.rows.size() + 1)}});
    numbered.rows.back().insert(numbered.rows.back().end(), row.begin(), row.end());
  }
  return numbered;
}

// Renders all columns side by side.
std::string render_part(const TextTable& table) {
  const std::vector<Span> groups = group_spans(table);
  const std::vector<std::size_t> widths = column_widths(table, groups);
  const std::string gap(kGap, ' ');
  std::string text;
  if (std::any_of(table.columns.begin(), table.columns.end(),
                  [](const TextColumn& column) { return !column.group.empty(); })) {
    for (const Span& span : groups) {
      if (span.first > 0) text += gap;
      text += group_title(table.columns[span.first].group, span, width_of(span, widths));
    }
    end_line(text);
  }
  std::string titles;
  std::size_t total = 0;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    titles += (c > 0 ? gap : "") + padded(table.columns[c].title, widths[c], table.columns[c].left);
    total += widths[c] + (c > 0 ? kGap : 0);
  }
  end_line(titles);
  text += titles + std::string(total, '-') + '\n';
  for (const auto& row : table.rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); c += row[c].span) {
      const Span span{.first = c, .count = row[c].span};
      line += render_cell(row[c], width_of(span, widths), table.columns[c].left, c == 0);
    }
    end_line(line);
    text += line;
  }
  return text;
}

}  // namespace

std::size_t width(const TextTable& table) {
  const std::vector<std::size_t> widths = column_widths(table, group_spans(table));
  return width_of({.first = 0, .count = widths.size()}, widths);
}

std::string render_plain(const TextTable& table) {
  if (width(table) <= most_columns()) return render_part(table);
  if (has_too_wide_keys(table)) return render_plain(with_numbered_rows(table));
  std::string text;
  for (std::size_t c = 0; c < table.columns.size();) {
    if (is_key(table, c)) {
      ++c;
      continue;
    }
    const std::size_t end = end_of_part(table, c);
    text += (text.empty() ? "" : "\n") + render_part(part_of(table, c, end));
    c = end;
  }
  return text.empty() ? render_part(table) : text;
}

std::string render_markdown(const TextTable& table) {
  const auto escaped = [](const std::string& text) {
    std::string result;
    for (char c : text) result += c == '|' ? "\\|" : std::string(1, c);
    return result;
  };
  std::string text = "|";
  std::string rule = "|";
  for (const TextColumn& column : table.columns) {
    text += " " + escaped(full_title(column)) + " |";
    rule += column.left ? ":---|" : "---:|";
  }
  text += "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    text += "|";
    for (std::size_t c = 0; c < row.size(); c += row[c].span) {
      text += row[c].mark == ' ' ? " " : fmt::format(" {}", row[c].mark);
      text += escaped(row[c].text) + " |";
      for (std::size_t rest = 1; rest < row[c].span; ++rest) text += " |";
    }
    text += "\n";
  }
  return text;
}

std::string render_csv(const TextTable& table) {
  std::string text;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    text += (c > 0 ? "," : "") + csv_field(full_title(table.columns[c]));
  }
  text += "\r\n";
  for (const auto& row : table.rows) {
    for (std::size_t c = 0; c < row.size(); c += row[c].span) {
      for (std::size_t repeat = 0; repeat < row[c].span; ++repeat) {
        text += (c + repeat > 0 ? "," : "") + csv_field(row[c].text);
      }
    }
    text += "\r\n";
  }
  return text;
}

std::string Footnotes::mark(const std::string& word, const std::string& reason) {
  if (reason.empty()) return word;
  const auto place = std::find(reasons_.begin(), reasons_.end(), reason);
  const auto number = static_cast<std::size_t>(place - reasons_.begin()) + 1;
  if (place == reasons_.end()) reasons_.push_back(reason);
  return fmt::format("{} [{}]", word, number);
}

std::string Footnotes::text() const {
  std::string lines;
  for (std::size_t i = 0; i < reasons_.size(); ++i) {
    lines += wrap(fmt::format("[{}] {}", i + 1, reasons_[i]), 4);
  }
  return lines;
}

std::string count_of(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::size_t width(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    widest = std::max(widest, characters(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return widest;
}

std::string fill(const std::vector<std::string>& words, std::size_t indent, std::size_t columns) {
  std::string text;
  std::string line;
  for (const std::string& word : words) {
    const std::size_t size = characters(word);
    if (!line.empty() && characters(line) + 1 + size > columns) {
      text += line + '\n';
      line.assign(std::min(indent, columns - std::min(size, columns)), ' ');
      line += word;
      continue;
    }
    if (&word != &words.front()) line += ' ';
    line += word;
  }
  return text + line + '\n';
}

std::string wrap(const std::string& text, std::size_t indent, std::size_t columns) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return fill(words, indent, columns);
}

TableFormat parse_format(const std::string& text, const std::string& where) {
  if (text == "table") return TableFormat::table;
  if (text == "markdown") return TableFormat::markdown;
  if (text == "csv") return TableFormat::csv;
  if (text == "json") return TableFormat::json;
  throw UsageError(fmt::format("{}: '{}' is not a format{}", where, text,
                               suggestion(text, {"table", "markdown", "csv", "json"})));
}

}  // namespace attnlab
