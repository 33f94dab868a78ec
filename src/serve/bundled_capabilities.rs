//! The documents that come with the command, and are published on first start.

use crate::publish_order::sort_by_dependency;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// The name and text of each shipped document.
        const SHIPPED: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../capabilities/", $name, ".yaml")))),*
        ];
    };
}

shipped![
    "CheckGrammar",
    "CompareCityWeather",
    "ConvertIntoCurrencies",
    "CreateChart",
    "DefineWord",
    "DescribePlace",
    "FindConcerts",
    "FindEarthquakes",
    "FindRickAndMortyCharacters",
    "FindStatutoryInstruments",
    "GenerateApiClient",
    "GetCityWeather",
    "GetCountry",
    "GetExchangeRate",
    "GetJoke",
    "GetLatestRelease",
    "GetPublicHolidays",
    "GetRepository",
    "GetSunTimes",
    "GetWeatherAlert",
    "GetWeatherForecast",
    "GetWeatherOfCities",
    "GetWikipediaSummary",
    "ListDogBreeds",
    "ListExchangeRates",
    "ListHolidaysOfYears",
    "LocateTrafficSensors",
    "LookUpFileHash",
    "PostTweet",
    "PostWeatherTweet",
    "PrepareTrip",
    "ProofreadAndNotify",
    "QuoteLovecraft",
    "ReachFollowers",
    "ReadGovernmentNews",
    "SearchBooks",
    "SearchDomainNames",
    "SearchVocaloidSongs",
    "SendNotification",
    "ShareMessage",
    "WarnOfHighWater",
    "WeatherAlertCapability",
];

/// Returns the name and source of each shipped document; dependencies come before the documents that use
/// them.
pub(crate) fn bundled_documents() -> Vec<(&'static str, Vec<u8>)> {
    let documents = SHIPPED.iter().map(|(name, source)| (*name, source.as_bytes().to_vec()));
    sort_by_dependency(documents.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_document_of_the_folder_is_shipped() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("capabilities");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let names: BTreeSet<String> = SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(files, names);
    }
}
