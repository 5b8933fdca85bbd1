// The store's contract on PostgreSQL, and tests of PostgreSQL alone.

#include <atomic>
#include <thread>

#include "coordinator/store/postgres_connection.h"
#include "coordinator/store/sql_database.h"
#include "tests/contract/store_contract.h"
#include "tests/support/postgres.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;
using Disk = ThrowawayPostgres::Disk;

// The server with this kind of disk, started on first use and shared by all
// tests. Null, with a failure, if it does not start.
ThrowawayPostgres* Server(Disk disk) {
  static std::unique_ptr<ThrowawayPostgres> servers[2];
  auto& server = servers[disk == Disk::kDurable ? 1 : 0];
  if (server == nullptr) {
    auto started = ThrowawayPostgres::Start(disk);
    if (started) {
      server = *std::move(started);
    } else {
      ADD_FAILURE() << started.error().message;
    }
  }
  return server.get();
}

// The server's database, emptied. Only the one made last is valid.
class ServerDatabase final : public TestDatabase {
 public:
  static std::unique_ptr<TestDatabase> Make(Disk disk) {
    ThrowawayPostgres* server = Server(disk);
    if (server == nullptr) return nullptr;
    const Status emptied = server->Empty();
    if (emptied) return std::make_unique<ServerDatabase>(server);
    ADD_FAILURE() << emptied.error().message;
    return nullptr;
  }

  explicit ServerDatabase(ThrowawayPostgres* server) : server_(server) {}

  std::string url() const override { return server_->url(); }
  bool shared() const override { return true; }
  void Crash() override {
    const Status status = server_->Crash();
    EXPECT_TRUE(status) << status.error().message;
  }

 private:
  ThrowawayPostgres* server_;
};

const TestDatabaseFactory kServer = {
    "Server", [] { return ServerDatabase::Make(Disk::kFast); },
    [] { return ServerDatabase::Make(Disk::kDurable); }};

INSTANTIATE_TEST_SUITE_P(Postgres, StoreContract, ::testing::Values(kServer),
                         DatabaseName);

class PostgresStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = Server(Disk::kFast);
    ASSERT_NE(server_, nullptr);
    const Status emptied = server_->Empty();
    ASSERT_TRUE(emptied) << emptied.error().message;
    url_ = server_->url();
  }

  ThrowawayPostgres* server_ = nullptr;
  std::string url_;
};

TEST_F(PostgresStoreTest, OpensADatabaseFromManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto store = OpenStore(url_);
      ASSERT_TRUE(store) << store.error().message;
      EXPECT_TRUE((*store)->CheckWritable());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(PostgresStoreTest, ContinuesWhenItsConnectionsAreClosed) {
  const auto store = OpenStore(url_).value();
  ASSERT_TRUE(store->plans.CreatePlan(TestPlan("a")));
  ASSERT_TRUE(server_->EndConnections());
  const auto plan = store->plans.CreatePlan(TestPlan("b"));
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_TRUE(server_->EndConnections());
  EXPECT_EQ(store->plans.ListPlanIds(9)->size(), 2U);
}

TEST_F(PostgresStoreTest, RetriesATransactionWhoseConnectionBroke) {
  const auto database = OpenPostgres(url_).value();
  int runs = 0;
  const Status status = database->Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(sql.Execute("CREATE TABLE once (x BIGINT)"));
    if (++runs == 1) {
      EXPECT_TRUE(server_->EndConnections());
    }
    return sql.Execute("INSERT INTO once VALUES (1)");
  });
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_EQ(runs, 2);
}

TEST_F(PostgresStoreTest, RetriesTheLoserOfADeadlock) {
  const auto database = OpenPostgres(url_).value();
  ASSERT_TRUE(database->Write([](SqlTransaction& sql) {
    return sql.ExecuteScript(
        "CREATE TABLE t (id BIGINT, n BIGINT);"
        "INSERT INTO t VALUES (1, 0), (2, 0)");
  }));
  std::atomic<int> runs = 0;
  std::atomic<int> holding = 0;
  const auto update = [&](std::int64_t first, std::int64_t second) {
    const Status status = database->Write([&](SqlTransaction& sql) -> Status {
      const std::string add = "UPDATE t SET n = n + 1 WHERE id = $1";
      ++runs;
      UCUDNN_RETURN_IF_ERROR(sql.Execute(add, {first}));
      ++holding;
      while (holding < 2) std::this_thread::yield();
      return sql.Execute(add, {second});
    });
    EXPECT_TRUE(status) << status.error().message;
  };
  std::thread other(update, 1, 2);
  update(2, 1);
  other.join();
  // At least 3: the server may abort both.
  EXPECT_GE(runs, 3);
  const auto sum = database->Read([](auto& sql) {
    return sql.Query("SELECT CAST(SUM(n) AS BIGINT) FROM t");
  });
  EXPECT_EQ(sum->at(0).Int(0), 4);
}

TEST_F(PostgresStoreTest, SaysWhyADatabaseCannotBeReached) {
  auto store = OpenStore("postgresql://ucudnn@/postgres?host=/nowhere");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kUnavailable);
  EXPECT_THAT(store.error().message, HasSubstr("No such file or directory"));
  std::string missing = url_;
  missing.replace(missing.find("/postgres?"), 10, "/none?");
  store = OpenStore(missing);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kUnavailable);
  EXPECT_THAT(store.error().message, HasSubstr("does not exist"));
}

// Of tutorials: the user may connect, and since PostgreSQL 15 make no tables.
TEST_F(PostgresStoreTest, SaysWhichRightsAUserLacks) {
  ASSERT_TRUE(server_->Execute("CREATE USER weak"));
  std::string url = url_;
  url.replace(url.find("ucudnn@"), 7, "weak@");
  const std::string grant = "GRANT ALL ON schema public TO \"weak\"";
  for (const char* right : {"USAGE", "CREATE"}) {
    const auto store = OpenStore(url);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, Code::kFailedPrecondition);
    EXPECT_THAT(store.error().message, HasSubstr(grant));
    ASSERT_TRUE(server_->Execute(
        fmt::format("GRANT {} ON SCHEMA public TO weak", right)));
  }
  const auto store = OpenStore(url);
  EXPECT_TRUE(store) << store.error().message;
  ASSERT_TRUE(server_->Execute("DROP OWNED BY weak; DROP USER weak"));
}

TEST_F(PostgresStoreTest, MovesToTheServerThatIsNotReadOnly) {
  const auto other = ThrowawayPostgres::Start(Disk::kFast);
  ASSERT_TRUE(other) << other.error().message;
  const std::string folder = url_.substr(url_.find("host=") + 5);
  const std::string url =
      (*other)->url() + "," + folder + "&target_session_attrs=read-write";
  const auto moved = OpenStore(url_).value();
  const auto store = OpenStore(url).value();
  ASSERT_TRUE(store->CheckWritable());
  ASSERT_TRUE(
      (*other)->Execute("ALTER SYSTEM SET default_transaction_read_only = on"));
  ASSERT_TRUE((*other)->Execute("SELECT pg_reload_conf()"));
  EXPECT_TRUE(test::WaitUntil([&] {
    const auto plan = store->plans.CreatePlan(TestPlan("a"));
    return plan && moved->plans.ListPlanIds(9)->size() == 1;
  }));
  EXPECT_TRUE(store->CheckWritable());
}

TEST_F(PostgresStoreTest, KeepsNothingInTheSessionsOfAPooler) {
  const auto url = PostgresUrl::Parse(url_).value();
  const auto connection =
      PostgresConnection::Open(url, /*pooled=*/true).value();
  const auto ask = [&](const char* statement) {
    std::string answer;
    const Status asked = connection->Run(
        TransactionMode::kWrite, [&](SqlTransaction& sql) -> Status {
          UCUDNN_ASSIGN_OR_RETURN(const auto rows, sql.Query(statement));
          answer = rows.at(0).Text(0);
          return {};
        });
    EXPECT_TRUE(asked) << asked.error().message;
    return answer;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask("SELECT current_setting('statement_timeout')"), "1min");
  }
  EXPECT_EQ(ask("SELECT CAST(COUNT(*) AS TEXT) FROM pg_prepared_statements"),
            "0");
  ASSERT_TRUE(connection->ExecuteScript("CREATE TABLE lasts (x TEXT)"));
  ASSERT_TRUE(connection->ExecuteScript(
      "INSERT INTO lasts SELECT current_setting('statement_timeout')"));
  // Without a transaction's settings, those of the session.
  EXPECT_EQ(ask("SELECT x FROM lasts"), "0");
}

TEST_F(PostgresStoreTest, RefusesADatabaseOfAnotherVersion) {
  ASSERT_TRUE(OpenStore(url_));
  const auto database = OpenPostgres(url_).value();
  ASSERT_TRUE(database->Write([](SqlTransaction& sql) {
    return sql.Execute("UPDATE schema_version SET version = 18");
  }));
  const auto store = OpenStore(url_);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(store.error().message, HasSubstr("has schema version 18"));
}

TEST_F(PostgresStoreTest, RefusesADatabaseThatIsNotUtf8) {
  const std::string url =
      server_->CreateDatabase("TEMPLATE template0 ENCODING 'SQL_ASCII'")
          .value();
  const auto store = OpenStore(url);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(store.error().message, HasSubstr("SQL_ASCII"));
}

}  // namespace
}  // namespace ucudnn
